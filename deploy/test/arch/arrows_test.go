package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// layers are the packages of a service from top to bottom. One imports packages of
// lower layers only, so neither upwards nor its neighbours.
var layers = [][]string{
	{"cmd/*"},
	{"internal/app", "internal/devnet", "internal/agent"},
	{"internal/httpapi", "internal/pages"},
	{"internal/web"},
	{"internal/people"},
	{"internal/account", "internal/policy", "internal/access", "internal/verification", "internal/payment/paywall", "internal/translog", "internal/beaconchain"},
	{"internal/evm", "internal/payment", "internal/config", "internal/sqlstore"},
	{"internal/oidc"},
	{"internal/user", "internal/session", "internal/ratelimit", "internal/once", "internal/password", "internal/chain", "internal/eip3009", "internal/audit", "internal/factor", "internal/link", "internal/application", "internal/token", "internal/returnpath", "internal/picture", "internal/snapshot", "internal/checkpage", "api"},
	{"internal/secrets", "internal/newest"},
}

// database is the one implementation of several nouns' stores.
const database = "internal/sqlstore"

// Arrows returns every import that runs the wrong way, and every package that is
// in no layer.
func Arrows(packages []Package) []string {
	var faults []string
	for _, p := range packages {
		if isService(p.Module()) && layerOf(p.Folder()) < 0 && layerOf(noun(p.Folder())) < 0 {
			faults = append(faults, p.ImportPath+" is in no layer: add it to one")
		}
		for _, imported := range p.Imports {
			if to := moduleOf(imported); to != "" {
				if why := wrong(p, Package{ImportPath: imported}); why != "" {
					faults = append(faults, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, why))
				}
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if to := moduleOf(imported); to != "" && to != p.Module() && !isShared(to) && !isInside(p.Module(), to) {
				faults = append(faults, fmt.Sprintf("a test of %s imports %s: another module", p.ImportPath, imported))
			}
		}
	}
	return faults
}

// wrong returns what is wrong with an import, or "".
func wrong(from, to Package) string {
	switch {
	case isTest(to.Folder()) && !isTest(from.Folder()) && (from.Folder() != "internal/devnet" || to.Folder() != "finality/beacontest"): // a program for development
		return "test packages are imported by _test.go files only"
	case from.Module() != to.Module() && (!isShared(to.Module()) || from.Module() == "pkg/receipt"):
		return "a module imports itself, pkg and pkg/receipt only, and pkg/receipt imports itself"
	case from.Module() != to.Module() && from.Module() == "proxy":
		return "proxy imports nothing of ours"
	case !isService(from.Module()) || from.Module() != to.Module():
		return ""
	}
	return wrongInside(from.Folder(), to.Folder())
}

func wrongInside(from, to string) string {
	switch {
	case isImplementation(from):
		if to == noun(from) || to == "internal/evm" || to == "internal/newest" || noun(to) == noun(from) && isTest(from) {
			return ""
		}
		if isTest(from) && max(layerOf(to), layerOf(noun(to))) > layerOf(noun(from)) {
			return "" // what its noun may import, and implementations
		}
		return "an implementation imports its own noun, evm and newest only"
	case (isImplementation(to) || to == database) && from != "internal/app" && from != "cmd/recordednode": // a node of recorded blocks, with nothing to wire
		return "only app imports implementations"
	case to == "internal/config" && from != "internal/app":
		return "only app sees the settings"
	case !isImplementation(to) && layerOf(to) <= layerOf(from):
		return "imports run down only"
	}
	return ""
}

// layerOf is the number of a package's layer from the top, or -1.
func layerOf(folder string) int {
	return slices.IndexFunc(layers, func(patterns []string) bool { return matchesAny(patterns, folder) })
}

// isImplementation reports whether a package is inside another one: a store, a
// reader of a chain, a suite.
func isImplementation(folder string) bool { return layerOf(folder) < 0 && layerOf(noun(folder)) >= 0 }

// noun is the package that an implementation belongs to.
func noun(folder string) string { return path.Dir(folder) }

func isTest(folder string) bool { return strings.HasSuffix(path.Base(folder), "test") }

// isShared reports whether the other modules may import a module.
func isShared(module string) bool { return module == "pkg" || module == "pkg/receipt" }

// isInside reports whether a module lies in the folder of another one, whose tests it
// holds that need modules of others.
func isInside(module, other string) bool { return strings.HasPrefix(module, other+"/") }

func isService(module string) bool { return path.Dir(module) == "services" }
