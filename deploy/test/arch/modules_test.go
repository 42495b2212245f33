package arch

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// goList returns what go list with args prints of one of our modules, for a program without cgo.
func goList(t *testing.T, module string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = "../../../" + module
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0"), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Other projects import the receipt, so it brings few modules along. golang.org/x/mod is
// there for receiptlog alone; gnark-crypto and bitset, which it needs, for finality alone,
// because the standard library has no pairing: who imports package receipt compiles none
// of the three.
func TestModules_ReceiptCompilesAtMostSeven(t *testing.T) {
	modules := func(packages string) (list []string) {
		const path = "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"
		list = strings.Fields(goList(t, "pkg/receipt", nil, "-deps", "-f", path, packages))
		slices.Sort(list)
		return slices.Compact(list)
	}
	if all := modules("./..."); len(all) > 7 {
		t.Errorf("the module compiles %d others, more than seven: %v", len(all), all)
	}
	for _, module := range modules(".") {
		if slices.Contains([]string{"golang.org/x/mod", "github.com/consensys/gnark-crypto", "github.com/bits-and-blooms/bitset"}, module) {
			t.Errorf("package receipt needs %s", module)
		}
	}
}

// What a module in go.mod names for its own tests is in the list too, and is neither
// fetched nor compiled by those who import the receipt. Most of it is gnark-crypto's.
func TestModules_ReceiptKnowsAtMostThirty(t *testing.T) {
	out := goList(t, "pkg/receipt", nil, "-m", "all")
	if modules := strings.Fields(out); strings.Count(out, "\n") > 30 {
		t.Errorf("go list -m all names %d modules, more than thirty: %v", strings.Count(out, "\n"), modules)
	}
}

// A receipt, its place in the log and its block's finality are checked offline, in a
// browser too. Package net itself comes with crypto/x509, which reads keys.
func TestModules_LogAndFinalityUseNoNetworkOrDatabase(t *testing.T) {
	needs := func(goos, goarch, pkg string) string {
		return "\n" + goList(t, "pkg/receipt", []string{"GOOS=" + goos, "GOARCH=" + goarch}, "-deps", pkg)
	}
	for _, pkg := range []string{"./receiptlog", "./finality", "./finality/lightclient"} {
		for _, packages := range []string{needs("linux", "amd64", pkg), needs("js", "wasm", pkg)} {
			for _, forbidden := range []string{"net/http", "crypto/tls", "database/sql", "os/exec"} {
				if strings.Contains(packages, "\n"+forbidden+"\n") {
					t.Errorf("%s needs %s", pkg, forbidden)
				}
			}
		}
	}
	if strings.Contains(needs("linux", "amd64", "."), "golang.org/x/mod/") {
		t.Error("package receipt needs golang.org/x/mod")
	}
	if strings.Contains(needs("linux", "amd64", "."), "/pkg/receipt/finality") {
		t.Error("package receipt imports finality")
	}
}

// They would be read at each start of the proxy: proxy/highlighting is in their place.
func TestModules_ProxyHasNoColoursOfCode(t *testing.T) {
	packages := goList(t, "proxy", nil, "-deps", ".")
	for _, unwanted := range []string{"/chroma/v2/lexers\n", "/chroma/v2/styles\n"} {
		if strings.Contains(packages, unwanted) {
			t.Errorf("the proxy compiles …%s", unwanted)
		}
	}
}
