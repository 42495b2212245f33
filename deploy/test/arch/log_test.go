package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pforte/pforte/deploy/internal/secrets"
)

// beside are the services that the log of receipts has beside the verifier.
var beside = []string{"witness-1", "witness-2", "mirror"}

func TestTheWitnessesOfAStackAreThoseThatSetupMakes(t *testing.T) {
	for file, site := range map[string]string{stacks[0]: "localhost:8080", stacks[1]: "${DOMAIN:-}"} {
		services := readCompose(t, file).Services
		setup := services["setup"].Environment
		if got := setup["PUBLIC_URL"]; got != "http://"+site && got != "https://"+site || got != services["verifier"].Environment["PUBLIC_URL"] {
			t.Errorf("%s: setup names the log after %v", file, got)
		}
		asked, _ := setup["LOG_WITNESSES"].(string)
		for i, url := range strings.Fields(whenSet(asked)) {
			name := fmt.Sprintf("witness-%d", i+1)
			if url != "http://"+name+":8090" {
				t.Errorf("%s: the verifier is to find %s at %s", file, name, url)
			}
			folder := "/secrets/" + name + "/"
			want := "witness --key " + folder + secrets.WitnessKey(i+1) + " --state " + folder + secrets.WitnessState(i+1) +
				" --log-policy " + folder + secrets.LogPolicy + " --name " + secrets.WitnessID(site, i+1) + " --listen :8090"
			if got := services[name].Command.Value; got != want {
				t.Errorf("%s: %s runs\n%s\nwant\n%s", file, name, got, want)
			}
		}
		if len(strings.Fields(whenSet(asked))) != 2 {
			t.Errorf("%s: the witnesses are %s", file, asked)
		}
	}
}

func TestNothingWaitsForTheWitnesses(t *testing.T) {
	for _, file := range stacks {
		for name, service := range readCompose(t, file).Services {
			var waits map[string]yaml.Node
			var list []string
			if service.DependsOn.Decode(&waits) != nil && service.DependsOn.Kind != 0 {
				if err := service.DependsOn.Decode(&list); err != nil {
					t.Fatal(err)
				}
			}
			for _, other := range beside {
				if _, found := waits[other]; found || slices.Contains(list, other) {
					t.Errorf("%s: %s waits for %s", file, name, other)
				}
			}
		}
	}
}

// A witness or a mark that is put back is older than what was cosigned or signed.
func TestNoBackupHoldsWhatGuardsTheLog(t *testing.T) {
	for _, file := range append(slices.Clone(stacks), scale) {
		services := readCompose(t, file).Services
		for target, source := range services["backup"].mounts(t) {
			if source == "mark" || source == "mirror" || strings.HasPrefix(source, "witness") {
				t.Errorf("%s: backup sees %s at %s", file, source, target)
			}
		}
		if file == scale {
			continue
		}
		mark, _ := services["verifier"].Environment["LOG_MARK_FILE"].(string)
		if services["verifier"].mounts(t)["/mark"] != "mark" || !strings.HasPrefix(whenSet(mark), "/mark/") {
			t.Errorf("%s: the mark is %s", file, mark)
		}
	}
	if mark := environments(t, scale)["verifier"]["LOG_MARK_FILE"]; mark != "" {
		t.Errorf("replicas share the mark %v", mark)
	}
}

// An operator decides to publish how much is sold, and when.
func TestProductionHasALogOnlyWhereItIsAskedFor(t *testing.T) {
	services := readCompose(t, stacks[1]).Services
	for service, names := range map[string][]string{
		"setup": {"LOG_WITNESSES"}, "verifier": {"RECEIPT_LOG_KEY_FILE", "LOG_POLICY_FILE", "LOG_MARK_FILE"},
	} {
		for _, name := range names {
			if value, _ := services[service].Environment[name].(string); !strings.HasPrefix(value, "${RECEIPT_LOG:+") || !strings.HasSuffix(value, "}") {
				t.Errorf("%s of %s is %q", name, service, value)
			}
		}
	}
	for _, name := range beside {
		if got := services[name].Deploy.Replicas; got != "${RECEIPT_LOG:-0}" {
			t.Errorf("there are %q of %s", got, name)
		}
	}
}
