package arch

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// household is the compose file of a login alone, and evidence the one that adds the verifier.
const (
	household = "deploy/compose.household.yml"
	evidence  = "deploy/compose.evidence.yml"
)

// ofImage returns the image of a service, also where an anchor has it.
func ofImage(s composeService) string {
	if s.Image.Kind == yaml.AliasNode {
		return s.Image.Alias.Value
	}
	return s.Image.Value
}

func TestHousehold_NeedsNoSetting(t *testing.T) {
	if file := text(t, household); strings.Contains(file, ":?") || strings.Contains(file, "-require") {
		t.Error("something has to be set")
	}
	services := environments(t, household)
	for _, service := range []string{"auth", "proxy"} {
		for _, row := range requiredRow.FindAllStringSubmatch(text(t, documented[service]), -1) {
			_, plain := services[service][row[1]]
			if _, file := services[service][row[1]+"_FILE"]; !plain && !file {
				t.Errorf("%s has no %s", service, row[1])
			}
		}
	}
	for setting := range services["backup"] {
		if !documents(text(t, "deploy/backup/usage.txt"), setting) {
			t.Errorf("backup knows no %s", setting)
		}
	}
}

// What the file asks the environment for is on the page, and what the table of the page names
// is taken. What is passed on to a service is in that one's README.
func TestHousehold_PageHasEverySetting(t *testing.T) {
	file, page := text(t, household), text(t, "deploy/docs/household.md")
	for _, name := range regexp.MustCompile(`\$\{([A-Z][A-Z0-9_]+)`).FindAllStringSubmatch(file, -1) {
		if !strings.Contains(page, "`"+name[1]+"`") && !strings.Contains(page, "`"+name[1]+"=") && !strings.HasSuffix(name[1], "_IMAGE") {
			t.Errorf("the page does not say what %s is", name[1])
		}
	}
	taken := environments(t, household)
	rows := regexp.MustCompile("(?m)^\\| (`[A-Z].*?) \\|").FindAllStringSubmatch(page, -1)
	if len(rows) < 8 {
		t.Errorf("the page has %d rows of settings", len(rows))
	}
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([A-Z_0-9]+)`").FindAllStringSubmatch(row[1], -1) {
			_, auth := taken["auth"][name[1]]
			_, proxy := taken["proxy"][name[1]]
			if !auth && !proxy && !strings.Contains(file, "${"+name[1]) {
				t.Errorf("the file does not take %s", name[1])
			}
		}
	}
}

// The first lines that anybody runs are those of the README, of the file and of the page.
func TestHousehold_IsInstalledByThreeLines(t *testing.T) {
	readme, page, file := text(t, "README.md"), text(t, "deploy/docs/household.md"), text(t, household)
	lines := regexp.MustCompile("(?s)\n```\n(.*?)\n```").FindStringSubmatch(readme)
	if lines == nil {
		t.Fatal("the README shows no lines to run")
	}
	run := strings.Split(lines[1], "\n")
	if len(run) != 3 || !strings.HasPrefix(run[0], "curl -fLO https://") || !strings.HasSuffix(run[0], "/compose.household.yml") ||
		!strings.HasPrefix(run[1], "echo COMPOSE_FILE=compose.household.yml > .env") || !strings.HasPrefix(run[2], "docker compose up -d --wait") {
		t.Errorf("the first lines of the README are %q", run)
	}
	if !strings.Contains(page, "\n$ "+run[0]+"\n") {
		t.Errorf("the page gets the file otherwise than by %s", run[0])
	}
	for part := range strings.SplitSeq(run[2], " && ") {
		if !strings.Contains(file, "\n#   "+part+"\n") {
			t.Errorf("%s does not say %s", household, part)
		}
	}
	workflow := text(t, ".github/workflows/release.yml")
	if !regexp.MustCompile(`gh release create .* dist/\*\.yml`).MatchString(workflow) {
		t.Error("the workflow does not publish the file")
	}
	first, second, proxies := strings.Index(readme, "docker compose"), strings.Index(readme, "x402"), strings.Index(readme, "deploy/docs/proxies.md")
	if first < 0 || proxies < first || second < proxies {
		t.Error("the README does not begin with the household")
	}
}

// Who has the network decides where applications may be: at home it is the administrator.
func TestHousehold_AloneLetsAdministratorsNameAddresses(t *testing.T) {
	if got := environments(t, household)["proxy"]["APPS"]; got != "${APPS:-lan}" {
		t.Errorf("at home APPS is %v", got)
	}
	if got := environments(t, "deploy/compose.production.yml")["proxy"]["APPS"]; got != "${APPS:-off}" {
		t.Errorf("in production APPS is %v", got)
	}
}

func TestHousehold_IsOneImageOfFourPrograms(t *testing.T) {
	programs := map[string]string{
		"setup": "setup", "auth": "auth", "setup-link": "auth", "proxy": "pforte-proxy", "check-proxy": "pforte-proxy",
		"backup": "backup",
	}
	services := readCompose(t, household).Services
	if want, got := slices.Sorted(maps.Keys(services)), slices.Sorted(maps.Keys(programs)); !slices.Equal(slices.DeleteFunc(want, func(name string) bool { return name == "redis" }), got) {
		t.Errorf("there are %v beside Redis", want)
	}
	for name, program := range programs {
		s := services[name]
		if image := ofImage(s); image != "${PFORTE_IMAGE:-localhost/pforte:devel}" || !slices.Equal(s.Entrypoint, []string{"/bin/" + program}) {
			t.Errorf("%s runs %v of %s", name, s.Entrypoint, image)
		}
		if test := s.Healthcheck.Test; len(test) > 0 && !slices.Equal(test, []string{"CMD", "/bin/" + program, "healthcheck"}) {
			t.Errorf("%s is asked by %v", name, test)
		}
	}
	verifier := readCompose(t, evidence).Services["verifier"]
	if image := ofImage(verifier); image != "${EVIDENCE_IMAGE:-localhost/pforte-evidence:devel}" || !slices.Equal(verifier.Entrypoint, []string{"/bin/verifier"}) {
		t.Errorf("the verifier is %v of %s", verifier.Entrypoint, image)
	}
}

func TestHousehold_ContainersAreConfined(t *testing.T) {
	for file, partial := range map[string][]string{household: nil, evidence: {"setup", "proxy", "backup"}} {
		for name, s := range readCompose(t, file).Services {
			if slices.Contains(partial, name) {
				continue
			}
			if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.PidsLimit == 0 || s.MemLimit == "" {
				t.Errorf("%s: %s may do too much: %+v", file, name, s)
			}
			if (len(s.Ports) > 0) != (name == "proxy") {
				t.Errorf("%s: %s publishes %v", file, name, s.Ports)
			}
			if s.Networks.Kind == 0 && s.NetworkMode != "none" {
				t.Errorf("%s: %s is on compose's own network", file, name)
			}
			// What ends, ends for good; the others come back after a fault.
			if ends := name == "setup" || name == "setup-link"; ends != (s.Restart == "") {
				t.Errorf("%s: %s is started again: %q", file, name, s.Restart)
			}
		}
	}
}

// `docker compose up --wait` fails where a container has ended that no other waits for.
func TestHousehold_IsWaitedFor(t *testing.T) {
	services := readCompose(t, household).Services
	type conditions map[string]struct {
		Condition string
		Required  *bool
	}
	waits := map[string]conditions{}
	for name, s := range services {
		if s.DependsOn.Kind != 0 {
			var c conditions
			if err := s.DependsOn.Decode(&c); err != nil {
				t.Fatal(err)
			}
			waits[name] = c
		}
	}
	link := waits["proxy"]["setup-link"]
	if link.Condition != "service_completed_successfully" || link.Required == nil || *link.Required {
		t.Errorf("the proxy waits for %+v", link)
	}
	for _, name := range []string{"redis", "auth"} {
		if waits[name]["setup"].Condition != "service_completed_successfully" {
			t.Errorf("%s starts without secrets", name)
		}
	}
	for _, name := range []string{"setup-link", "backup", "proxy"} {
		if waits[name]["auth"].Condition != "service_healthy" {
			t.Errorf("%s starts before auth", name)
		}
	}
	printed, auth := services["setup-link"], services["auth"]
	want := map[string]any{"DATABASE_URL": auth.Environment["DATABASE_URL"], "PUBLIC_URL": auth.Environment["PUBLIC_URL"]}
	if !maps.Equal(want, printed.Environment) || printed.NetworkMode != "none" {
		t.Errorf("setup-link sees %v", printed.Environment)
	}
}

// A restore leaves its marks where setup looks for them.
func TestHousehold_SetupSeesTheMarksOfARestore(t *testing.T) {
	services := readCompose(t, household).Services
	marks, _ := services["backup"].Environment["RESTORE_MARKS"].(string)
	if volume := services["backup"].mounts(t)[marks]; volume == "" || services["setup"].mounts(t)["/secrets/users"] != volume {
		t.Errorf("marks are in %q of %q", marks, volume)
	}
}

// up stops the proxy that runs before setup says what is missing: it is asked alone, first.
func TestEvidence_SettingsAreCheckedBeforeTheProxyStops(t *testing.T) {
	const check, start = "docker compose run --rm --no-deps setup && ", "docker compose up -d --wait\n"
	_, section, _ := strings.Cut(text(t, "deploy/docs/household.md"), "## Sell evidence too")
	section, _, _ = strings.Cut(section, "\n## ")
	if !strings.Contains(section, "$ "+check+start) || strings.Count(section, start) != 1 {
		t.Error("the page starts a verifier without asking setup")
	}
	if !strings.Contains(text(t, evidence), "#   "+check+start) {
		t.Error("the file does not say it")
	}
}

// Before a release, and for who builds it, no registry has the images that the files name.
func TestEvidence_ImageIsMadeFromAClone(t *testing.T) {
	run, page := "make image ARGS=--evidence", text(t, "deploy/docs/household.md")
	if !strings.Contains(page, "`"+run+"`") {
		t.Errorf("the page does not say %s", run)
	}
	printed := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"-n", "-C", top}, args...)...)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "ARGS=") // of the make that runs this test
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	without, with := printed("image"), printed(strings.Fields(run)[1:]...)
	for _, program := range []string{"./cmd/verifier", "./cmd/receipt"} {
		if !strings.Contains(with, program) || strings.Contains(without, program) {
			t.Errorf("%s is built for the wrong image", program)
		}
	}
}

func TestEvidence_AddsAllThatAVerifierNeeds(t *testing.T) {
	services := readCompose(t, evidence).Services
	for _, row := range requiredRow.FindAllStringSubmatch(text(t, documented["verifier"]), -1) {
		_, plain := services["verifier"].Environment[row[1]]
		if _, file := services["verifier"].Environment[row[1]+"_FILE"]; !plain && !file {
			t.Errorf("the verifier has no %s", row[1])
		}
	}
	var command []string
	setup := services["setup"]
	if err := setup.Command.Decode(&command); err != nil || len(command) != 3 || command[0] != "-require" {
		t.Fatalf("setup gets %v, %v", command, err)
	}
	for _, name := range strings.Fields(strings.ReplaceAll(command[1], "|", " ")) { // of A|B one is enough
		if services["setup"].Environment[name] != "${"+name+":-}" || !regexp.MustCompile(`(?m)^#   `+name+` `).MatchString(text(t, evidence)) {
			t.Errorf("%s is not seen by setup, or not said", name)
		}
	}
	var after map[string]struct{ Required *bool }
	dependsOn := services["backup"].DependsOn
	if err := dependsOn.Decode(&after); err != nil || after["verifier"].Required == nil || *after["verifier"].Required {
		t.Errorf("a verifier that does not start keeps the household from starting: %+v, %v", after, err)
	}
	if services["proxy"].Environment["VERIFIER_UPSTREAM"] != "verifier:8082" || environments(t, household)["proxy"]["VERIFIER_UPSTREAM"] != "off" {
		t.Error("the proxy asks a verifier that is not there, or none that is")
	}
	for path, setting := range map[string]string{"/ledger": "LEDGER_DATABASE_URL", "/secrets/verifier": "RECEIPT_SIGNING_KEY_FILE"} {
		if value, _ := services["backup"].Environment[setting].(string); !strings.Contains(value, path+"/") || services["backup"].mounts(t)[path] == "" {
			t.Errorf("an archive lacks %s", path)
		}
	}
}
