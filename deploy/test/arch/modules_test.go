package arch

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Other projects import the receipt, so it brings few modules along. Two of them,
// golang.org/x/mod and what it requires, are there for receiptlog alone.
func TestTheReceiptsModuleNeedsAtMostTwelveModules(t *testing.T) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-m", "all")
	cmd.Dir = "../../../pkg/receipt"
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if modules := strings.Fields(string(out)); strings.Count(string(out), "\n") > 12 {
		t.Errorf("go list -m all names %d modules, more than twelve: %v", strings.Count(string(out), "\n"), modules)
	}
}

// A receipt and its place in the log are checked offline, in a browser too. Package net
// itself comes with crypto/x509, which reads keys.
func TestTheReceiptLogUsesNeitherNetworkNorDatabase(t *testing.T) {
	needs := func(goos, goarch, pkg string) string {
		cmd := exec.CommandContext(context.Background(), "go", "list", "-deps", pkg)
		cmd.Dir = "../../../pkg/receipt"
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return "\n" + string(out)
	}
	for _, packages := range []string{needs("linux", "amd64", "./receiptlog"), needs("js", "wasm", "./receiptlog")} {
		for _, forbidden := range []string{"net/http", "crypto/tls", "database/sql", "os/exec"} {
			if strings.Contains(packages, "\n"+forbidden+"\n") {
				t.Errorf("receiptlog needs %s", forbidden)
			}
		}
	}
	if strings.Contains(needs("linux", "amd64", "."), "golang.org/x/mod/") {
		t.Error("package receipt needs golang.org/x/mod")
	}
}
