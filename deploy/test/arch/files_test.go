package arch

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// openEnd is a note to do something without the number of its issue. The
	// words are in pieces here because this file is searched as well.
	openEnd  = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	numbered = regexp.MustCompile(`\bTO` + `DO\(#\d+\): `)
	// machinePath is a path that exists on one person's machine only. Pages may
	// call the reader "you".
	machinePath = regexp.MustCompile(`(^|[\s"'=:(])/(work|root|home|Users|farm)/[\w.-]`)
	// article begins the name of a test that cannot be found by its subject.
	article = regexp.MustCompile(`^func (Test|Fuzz|Benchmark)(A|An|The)[A-Z][a-z]`)
)

// skipped are folders that hold nothing written for this project.
var skipped = []string{".git", ".pforte", "bin", "dist", "node_modules", "testdata"}

// Docs returns every package without a doc.go. A program, or a package of one
// file, has its comment above the package clause.
func Docs(packages []Package) []string {
	var faults []string
	for _, p := range packages {
		switch {
		case p.Doc == "":
			faults = append(faults, p.ImportPath+" has no package comment")
		case p.Name != "main" && len(p.GoFiles) > 1 && !slices.Contains(p.GoFiles, "doc.go"):
			faults = append(faults, p.ImportPath+" has no doc.go")
		}
	}
	return faults
}

// Files returns every file that has an open end without a number, names a path of one
// machine, or has a test whose name does not begin with its subject.
func Files(project fs.FS) ([]string, error) {
	var faults []string
	err := walk(project, func(name string, text func() (string, error)) error {
		if !isText(name) {
			return nil
		}
		data, err := text()
		faults = append(faults, faultsOf(name, strings.Split(strings.TrimSuffix(data, "\n"), "\n"))...)
		return err
	})
	return faults, err
}

// walk calls see with each file that was written for this project, and with a
// function that reads it.
func walk(project fs.FS, see func(name string, text func() (string, error)) error) error {
	return fs.WalkDir(project, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		if info, err := entry.Info(); err != nil || info.Size() > 1<<20 { // a program that was built here
			return err
		}
		return see(name, func() (string, error) {
			data, err := fs.ReadFile(project, name)
			return string(data), err
		})
	})
}

func faultsOf(name string, lines []string) []string {
	var faults []string
	for i, line := range lines {
		if openEnd.MatchString(line) && !numbered.MatchString(line) {
			faults = append(faults, fmt.Sprintf("%s:%d: an open end without the number of its issue", name, i+1))
		}
		if machinePath.MatchString(strings.ReplaceAll(line, "/home/you/", "~/")) {
			faults = append(faults, fmt.Sprintf("%s:%d: a path of one machine", name, i+1))
		}
		if article.MatchString(line) {
			faults = append(faults, fmt.Sprintf("%s:%d: a test's name begins with its subject", name, i+1))
		}
	}
	return faults
}

// isText reports whether people wrote the file: code, settings and pages, not
// recorded data and locks.
func isText(name string) bool {
	switch path.Ext(name) {
	case ".go", ".mod", ".sh", ".mjs", ".js", ".py", ".sql", ".sol", ".md", ".yml", ".yaml", ".txt", "":
		return true
	}
	return strings.HasPrefix(path.Base(name), "Caddyfile") || strings.HasPrefix(path.Base(name), "Dockerfile")
}
