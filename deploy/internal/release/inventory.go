package release

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Module is something that was compiled in.
type Module struct {
	// Path and Version name it for Go; the standard library is "std".
	Path, Version string
	// Sum is Go's checksum, "h1:…", none for the standard library.
	Sum string
	// Licences are the texts that it comes with.
	Licences []Licence
}

// ours is what the paths of our own modules begin with.
const ours = "github.com/pforte/pforte/"

// Inventory reads what was compiled into programs, by path and version, with the
// licences from Go's module cache and its root folder, where the build has just
// read the modules.
func Inventory(programs []string, cache, goroot string) ([]Module, error) {
	found := map[string]Module{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, fmt.Errorf("what %s is made of: %w", filepath.Base(program), err)
		}
		std := Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		found[std.Path+std.Version] = std
		for _, dep := range info.Deps {
			if strings.HasPrefix(dep.Path, ours) {
				continue
			}
			if dep.Replace != nil {
				dep = dep.Replace
			}
			found[dep.Path+dep.Version] = Module{Path: dep.Path, Version: dep.Version, Sum: dep.Sum}
		}
	}
	modules := slices.SortedFunc(maps.Values(found), func(a, b Module) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version, b.Version))
	})
	var faults []error
	for i, m := range modules {
		folder := goroot
		if m.Path != "std" {
			folder = filepath.Join(cache, escape(m.Path)+"@"+escape(m.Version))
		}
		var err error
		if source := inSource[m.Path]; source != "" {
			modules[i].Licences, err = fromSource(filepath.Join(folder, source))
		} else {
			modules[i].Licences, err = licencesIn(folder)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", m.Path, m.Version, err))
		}
	}
	return modules, errors.Join(faults...)
}

// escape writes a path as folders of the module cache are named: "!a" for "A".
func escape(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
