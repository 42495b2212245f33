package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pforte/pforte/deploy/internal/secrets"
)

// beside are the services that the log of receipts has beside the verifier.
var beside = []string{"witness-1", "witness-2", "mirror"}

func TestLog_WitnessesOfAStackAreThoseOfSetup(t *testing.T) {
	for file, site := range map[string]string{stacks[0]: "localhost:${HTTP_PORT:-8080}", stacks[1]: "${DOMAIN:-}"} {
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
				" --log-policy " + folder + secrets.LogPolicy + " --name " + secrets.WitnessID(site, i+1) + " --listen :8090 --begin=${LOG_BEGIN:-}"
			if got := services[name].Command.Value; got != want {
				t.Errorf("%s: %s runs\n%s\nwant\n%s", file, name, got, want)
			}
		}
		if len(strings.Fields(whenSet(asked))) != 2 {
			t.Errorf("%s: the witnesses are %s", file, asked)
		}
	}
}

func TestLog_NothingWaitsForTheWitnesses(t *testing.T) {
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
func TestLog_NoBackupHoldsWhatGuardsIt(t *testing.T) {
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
func TestLog_IsInProductionOnlyIfAskedFor(t *testing.T) {
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
	if got := services["setup"].Environment["RECEIPT_LOG"]; got != "${RECEIPT_LOG:-}" {
		t.Errorf("setup judges %q", got)
	}
	for _, name := range beside { // compose's own message about yes names no setting
		if got := services[name].Deploy.Replicas; got != "0${RECEIPT_LOG:+1}" {
			t.Errorf("there are %q of %s", got, name)
		}
	}
}

// systemd refuses to start a unit whose credential is not there: the verifier has those of
// the log where the operator puts a file beside its unit.
func TestLog_UnitsReadWhatSetupMakes(t *testing.T) {
	folder := t.TempDir()
	if err := secrets.MakeLog(folder, "home.example.org", []string{"http://127.0.0.1:8091", "http://127.0.0.1:8092"}); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for name, instances := range map[string][]string{"verifier-log.conf": {""}, "pforte-mirror.service": {""}, "pforte-witness@.service": {"1", "2"}} {
		for _, instance := range instances {
			unit := strings.ReplaceAll(systemd(t, name), "%i", instance)
			for _, match := range regexp.MustCompile(`(?m)^LoadCredential=(\S+):/etc/pforte/secrets/(\S+)$`).FindAllStringSubmatch(unit, -1) {
				if used[match[2]] = true; !strings.Contains(unit, "%d/"+match[1]) {
					t.Errorf("%s does not use %s", name, match[1])
				}
				if _, err := os.Stat(filepath.Join(folder, match[2])); err != nil {
					t.Errorf("%s: setup does not make %s", name, match[2])
				}
			}
			if instance != "" {
				number := int(instance[0] - '0')
				if !strings.Contains(unit, "--name "+secrets.WitnessID("${LOG_HOST}", number)+" ") || !strings.Contains(unit, "/"+secrets.WitnessState(number)+" ") ||
					!strings.Contains(unit, "--listen 127.0.0.1:809"+instance+" --begin=${LOG_BEGIN}\n") {
					t.Errorf("%s is not witness %s of the policy", name, instance)
				}
			}
		}
	}
	if len(used) != 4 || strings.Contains(systemd(t, "pforte-verifier.service"), "LOG_POLICY_FILE") {
		t.Errorf("used are %v", used)
	}
	page := text(t, documented["verifier"])
	for _, match := range environmentLine.FindAllStringSubmatch(systemd(t, "verifier-log.conf"), -1) {
		if !documents(page, match[1]) {
			t.Errorf("the verifier knows no %s", match[1])
		}
	}
}
