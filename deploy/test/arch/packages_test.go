package arch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root is the import path that all our modules begin with.
const Root = "github.com/pforte/pforte/"

// Modules are our modules by folder, in the order in which they may import. One
// that lies in the folder of another comes before it.
var Modules = []string{"pkg/receipt", "pkg", "services/auth", "services/verifier/interop", "services/verifier", "proxy", "deploy/kubernetes", "deploy"}

// Package is one package as `go list` reports it.
type Package struct {
	ImportPath   string
	Name         string
	Dir          string
	Doc          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// Folder is the package's place in its module, such as "internal/session/redisstore".
// The package at the top of a module is ".".
func (p Package) Folder() string {
	folder := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, Root+p.Module()), "/")
	if folder == "" {
		return "."
	}
	return folder
}

// Module is the folder of the package's module, or "" for a package not ours.
func (p Package) Module() string { return moduleOf(p.ImportPath) }

func moduleOf(importPath string) string {
	path, ours := strings.CutPrefix(importPath, Root)
	for _, m := range Modules {
		if ours && (path == m || strings.HasPrefix(path, m+"/")) {
			return m
		}
	}
	return ""
}

// Load lists the packages of all modules below the top folder of the project.
func Load(ctx context.Context, top string) ([]Package, error) {
	var all []Package
	for _, module := range Modules {
		cmd := exec.CommandContext(ctx, "go", "list", "-json", "./...")
		cmd.Dir = filepath.Join(top, module)
		cmd.Env = append(os.Environ(), "GOWORK=off")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", module, err)
		}
		for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p Package
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list in %s: %w", module, err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}
