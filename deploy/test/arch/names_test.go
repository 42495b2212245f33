package arch

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	link     = regexp.MustCompile(`\]\(([^)\s#:]+)(#[^)\s]*)?\)`)
	// fileName is a file without its folder, pathName a path from the top, from a
	// module or from a folder above the page or package.
	fileName    = regexp.MustCompile(`^[a-z]\w*\.(go|md)$`)
	pathName    = regexp.MustCompile(`^(?:pkg|services|proxy|deploy|internal|cmd|\.ci|\.github)/[\w./-]*\w$`)
	settingName = regexp.MustCompile(`^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=.*)?$`)
	comment     = regexp.MustCompile(`(?m)^\s*//(.*)$`)
	commentWord = regexp.MustCompile(`/?[\w.][\w./-]*\w`)
)

// made are files that an operator or a release makes.
var made = []string{"deploy/.env", "licences.md"}

// foreignSettings are read by programs and libraries that are not ours, or are
// made up of two parts.
var foreignSettings = regexp.MustCompile(`^(OTEL|GO|REDIS|POSTGRES)_|^(XDG_.*_HOME|BUILDKIT_.*|SSL_CERT_FILE|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE)$`)

// Names returns every name in a page, or in a comment of Go, of a file, a package
// or a setting that does not exist.
func Names(project fs.FS) ([]string, error) {
	var pages, sources []string
	texts, base := map[string]string{}, map[string]bool{}
	err := walk(project, func(name string, text func() (string, error)) error {
		base[path.Base(name)] = true
		if !isText(name) && !slices.Contains([]string{".env", ".service", ".conf"}, path.Ext(name)) {
			return nil
		}
		var err error
		texts[name], err = text()
		switch path.Ext(name) {
		case ".md":
			pages = append(pages, name)
		case ".go":
			sources = append(sources, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var code strings.Builder
	for name, text := range texts {
		if path.Ext(name) != ".md" {
			code.WriteString(text)
		}
	}
	settings := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Z][A-Z0-9_]+`).FindAllString(code.String(), -1) {
		settings[word] = true
	}
	exists := func(from, to string) bool {
		for _, module := range Modules {
			if _, err := fs.Stat(project, path.Join(module, to)); err == nil {
				return true
			}
		}
		for folder := path.Dir(from); ; folder = path.Dir(folder) { // from its own folder up to the top
			if _, err := fs.Stat(project, path.Join(folder, to)); err == nil {
				return true
			}
			if folder == "." {
				return false
			}
		}
	}
	var faults []string
	check := func(file, word string) {
		setting := settingName.FindStringSubmatch(word)
		switch {
		case slices.Contains(made, word):
		case fileName.MatchString(word) && !base[word], pathName.MatchString(word) && !exists(file, word):
			faults = append(faults, fmt.Sprintf("%s names %s, which does not exist", file, word))
		case setting != nil && !settings[setting[1]] && !settings[strings.TrimSuffix(setting[1], "_FILE")] && !foreignSettings.MatchString(setting[1]):
			faults = append(faults, fmt.Sprintf("%s names the setting %s, which nothing reads", file, setting[1]))
		}
	}
	for _, page := range pages {
		for _, match := range codeSpan.FindAllStringSubmatch(texts[page], -1) {
			check(page, match[1])
		}
		for _, match := range link.FindAllStringSubmatch(texts[page], -1) {
			if _, err := fs.Stat(project, path.Join(path.Dir(page), match[1])); err != nil {
				faults = append(faults, fmt.Sprintf("%s links to %s, which does not exist", page, match[1]))
			}
		}
	}
	for _, source := range sources {
		for _, line := range comment.FindAllStringSubmatch(texts[source], -1) {
			for _, word := range commentWord.FindAllString(line[1], -1) {
				if !settingName.MatchString(word) {
					check(source, word)
				}
			}
		}
	}
	return faults, nil
}

func TestNames_OfWhatDoesNotExistAreFaults(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	faults, err := Names(fstest.MapFS{
		"pkg/config/config.go": file("// Package config reads ADDR_OF; see read.go, config.go and pkg/none.\nvar x = \"READ_THIS\" // internal"),
		"README.md":            file("`pkg/config`, `pkg/nothing`, `READ_THIS=1`, `READ_THIS_FILE`, `READ_NOT`, `lost.go`, `config.go`, [a](pkg/config#x), [b](pkg/lost.md), [c](https://x.org/y)"),
		"pkg/README.md":        file("`config/config.go` [d](../README.md)"),
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(faults)
	want := []string{
		"README.md links to pkg/lost.md, which does not exist", "README.md names lost.go, which does not exist",
		"README.md names pkg/nothing, which does not exist", "README.md names the setting READ_NOT, which nothing reads",
		"pkg/config/config.go names pkg/none, which does not exist", "pkg/config/config.go names read.go, which does not exist",
	}
	if !slices.Equal(faults, want) {
		t.Errorf("got\n%s", strings.Join(faults, "\n"))
	}
}
