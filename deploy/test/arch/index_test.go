package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	indexPage    = "deploy/docs/README.md"
	decisionsDir = "deploy/docs/adr"
	decisionsMax = 40 // lines of a decision record
)

// Index returns every page that the index does not list on a line of its own, and every
// decision record that is too long.
func Index(project fs.FS) ([]string, error) {
	var pages, faults []string
	listed := map[string]bool{}
	// Pages beside test data are pages, so this does not leave out what walk does.
	err := fs.WalkDir(project, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() != "testdata" && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		pages = append(pages, name)
		text, err := fs.ReadFile(project, name)
		if lines := strings.Count(string(text), "\n"); path.Dir(name) == decisionsDir && lines > decisionsMax {
			faults = append(faults, fmt.Sprintf("%s has %d lines, more than %d", name, lines, decisionsMax))
		}
		if name == indexPage {
			for line := range strings.Lines(string(text)) {
				if to := link.FindStringSubmatch(line); to != nil && strings.HasPrefix(line, "- [") {
					listed[path.Join(path.Dir(name), to[1])] = true
				}
			}
		}
		return err
	})
	for _, page := range pages {
		if !listed[page] && page != indexPage {
			faults = append(faults, page+" is not in "+indexPage)
		}
	}
	return faults, err
}

func TestIndex_ListsEveryPage(t *testing.T) {
	faults, err := Index(os.DirFS(top))
	if err != nil {
		t.Fatal(err)
	}
	none(t, faults)
}

func TestIndex_FindsPagesThatAreNotListedAndLongDecisions(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	faults, err := Index(fstest.MapFS{
		indexPage:                   file("# Pages\n\n- [a](a.md): of everything\n- [x](adr/0001-x.md): x\n\nSee [c](c.md).\n"),
		"deploy/docs/a.md":          file("# A\n"),
		"deploy/docs/c.md":          file("# C\n"),
		"pkg/x/testdata/b.md":       file("# B\n"),
		"node_modules/x/d.md":       file("# D\n"),
		"deploy/docs/adr/0001-x.md": file(strings.Repeat("line\n", decisionsMax+1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"deploy/docs/adr/0001-x.md has 41 lines, more than 40",
		"deploy/docs/c.md is not in " + indexPage, "pkg/x/testdata/b.md is not in " + indexPage,
	}
	if !slices.Equal(faults, want) {
		t.Errorf("got\n%s", strings.Join(faults, "\n"))
	}
}
