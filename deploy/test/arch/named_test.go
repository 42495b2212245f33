package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile("`(Test[A-Z]\\w+)`")
	writtenTest = regexp.MustCompile(`(?m)^func (Test[A-Z]\w+)\(`)
)

// below returns what a pattern finds in all files of the project that end like
// that, with the file where it was found.
func below(t *testing.T, ending string, pattern *regexp.Regexp) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && slices.Contains(skipped, entry.Name()) {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !entry.Type().IsRegular() || !strings.HasSuffix(name, ending) {
			return nil
		}
		content, err := os.ReadFile(name)
		for _, match := range pattern.FindAllStringSubmatch(string(content), -1) {
			found[match[1]] = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPages_NameTestsThatExist(t *testing.T) {
	written, named := below(t, "_test.go", writtenTest), below(t, ".md", namedTest)
	if len(named) < 30 {
		t.Errorf("pages name %d tests", len(named))
	}
	for name, page := range named {
		if written[name] == "" {
			t.Errorf("%s names %s, which does not exist", page, name)
		}
	}
}
