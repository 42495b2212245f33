package arch

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Other projects import the receipt, so it brings few modules along.
func TestTheReceiptsModuleNeedsAtMostTenModules(t *testing.T) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-m", "all")
	cmd.Dir = "../../../pkg/receipt"
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if modules := strings.Fields(string(out)); strings.Count(string(out), "\n") > 10 {
		t.Errorf("go list -m all names %d modules, more than ten: %v", strings.Count(string(out), "\n"), modules)
	}
}
