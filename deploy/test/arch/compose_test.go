package arch

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// documented lists the pages with the settings of each service of the stacks.
var documented = map[string]string{
	"auth": "services/auth/README.md", "verifier": "services/verifier/README.md", "proxy": "proxy/README.md",
}

// decided are settings that the stack for production decides itself, so that
// they can be set by a compose file of one's own only.
var decided = map[string][]string{
	// SESSION_SECURE: it is never served by plain http. BOOTSTRAP_ADMIN_*: an
	// operator makes the first admin. NODE_ENV: a secret is always there.
	"auth": {"ADDR", "SHUTDOWN_DELAY", "SESSION_SECURE", "BOOTSTRAP_ADMIN_USERNAME", "BOOTSTRAP_ADMIN_PASSWORD", "NODE_ENV"},
	// CHAINS_FILE: the file has to be mounted too.
	"verifier": {"ADDR", "SHUTDOWN_DELAY", "CHAINS_FILE"},
	// FRONTEND_ROOT, ROUTES_FOLDER: the folder has to be mounted too.
	"proxy": {"ADMIN_PORT", "SHUTDOWN_DELAY", "FRONTEND_ROOT", "ROUTES_FOLDER"},
}

var settingRow = regexp.MustCompile("(?m)^\\| `([A-Z][A-Z0-9_]{3,})`")

// environments returns what each service of a compose file has in its environment.
func environments(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for name, service := range readCompose(t, file).Services {
		found[name] = service.Environment
	}
	return found
}

// compose is what these tests read of a compose file.
type compose struct {
	Services map[string]composeService
	Networks map[string]struct {
		Internal   bool
		EnableIPv6 string `yaml:"enable_ipv6"`
		IPAM       struct {
			Config []struct {
				Subnet, Gateway string
				IPRange         string `yaml:"ip_range"`
			}
		}
	}
	Volumes map[string]any
}

type composeService struct {
	Image, Command yaml.Node
	PullPolicy     string `yaml:"pull_policy"`
	Environment    map[string]any
	Volumes        []yaml.Node
	Networks       yaml.Node
	Healthcheck    struct {
		Test    []string
		Timeout time.Duration
		Disable bool
	}
	Profiles    []string
	DependsOn   yaml.Node `yaml:"depends_on"`
	ReadOnly    bool      `yaml:"read_only"`
	CapDrop     []string  `yaml:"cap_drop"`
	SecurityOpt []string  `yaml:"security_opt"`
	NetworkMode string    `yaml:"network_mode"`
	PidsLimit   int       `yaml:"pids_limit"`
	MemLimit    string    `yaml:"mem_limit"`
	Ports       []string
	Entrypoint  []string
	Restart     string
	Deploy      struct{ Replicas string }
}

// mounts returns what a service has at which path.
func (s composeService) mounts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, node := range s.Volumes {
		var long struct{ Source, Target string }
		if node.Kind == yaml.ScalarNode {
			parts := strings.Split(node.Value, ":")
			long.Source, long.Target = parts[0], parts[1]
		} else if err := node.Decode(&long); err != nil {
			t.Fatal(err)
		}
		found[long.Target] = long.Source
	}
	return found
}

// joined returns the networks of a service, with the address that it has there
// where the file has one.
func (s composeService) joined(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	if s.Networks.Kind == yaml.SequenceNode {
		for _, name := range s.Networks.Content {
			found[name.Value] = ""
		}
		return found
	}
	var networks map[string]struct {
		Address string `yaml:"ipv4_address"`
	}
	if err := s.Networks.Decode(&networks); err != nil {
		t.Fatal(err)
	}
	for name, network := range networks {
		found[name] = network.Address
	}
	return found
}

func readCompose(t *testing.T, file string) (c compose) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text(t, file)), &c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

// traceSettings are those that the services and the page about traces name, but
// for the one that differs from program to program.
func traceSettings(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, page := range []string{documented["auth"], documented["verifier"], "deploy/docs/observability.md"} {
		for _, name := range regexp.MustCompile("`(OTEL_[A-Z_]+[A-Z])[`=]").FindAllStringSubmatch(text(t, page), -1) {
			names = append(names, strings.TrimSuffix(name[1], "_FILE"))
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %v are settings of traces", names)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "OTEL_SERVICE_NAME" })
}

func TestCompose_SetsDocumentedSettings(t *testing.T) {
	traces := traceSettings(t)
	for _, file := range []string{"docker-compose.yml", "deploy/compose.production.yml", "deploy/compose.scale.yml", household, evidence} {
		services := environments(t, file)
		for service, readme := range documented {
			page := text(t, readme)
			for setting := range services[service] {
				if !documents(page, setting) && !slices.Contains(traces, setting) {
					t.Errorf("%s: %s knows no %s", file, service, setting)
				}
			}
		}
	}
}

func TestCompose_LetsProductionSetEverySetting(t *testing.T) {
	services := environments(t, "deploy/compose.production.yml")
	for service, readme := range documented {
		for _, row := range settingRow.FindAllStringSubmatch(text(t, readme), -1) {
			_, plain := services[service][row[1]]
			_, file := services[service][row[1]+"_FILE"]
			if decides := slices.Contains(decided[service], row[1]); (plain || file) == decides {
				t.Errorf("%s of %s: passed on is %v, decided is %v", row[1], service, plain || file, decides)
			}
		}
	}
}

// In a network with the proxy, auth would see another address of it than the one that it trusts. A file named
// compose.override.yml is read by itself only beside a compose.yml.
func TestCompose_WayOutOfAuthIsNotTheProxys(t *testing.T) {
	page := text(t, "deploy/docs/operations.md")
	block := regexp.MustCompile("(?s)\n## Notifications\n.*?\n```yaml\n(.*?)```").FindStringSubmatch(page)
	if block == nil {
		t.Fatal("the page shows no file")
	}
	var out compose
	if err := yaml.Unmarshal([]byte(block[1]), &out); err != nil {
		t.Fatal(err)
	}
	for network := range out.Services["auth"].joined(t) {
		if _, made := out.Networks[network]; !made {
			t.Errorf("the file does not make %s", network)
		}
		for _, file := range []string{stacks[1], household} {
			if _, there := readCompose(t, file).Networks[network]; there {
				t.Errorf("%s has a network %s already", file, network)
			}
		}
	}
	if !strings.Contains(page, "`COMPOSE_FILE=compose.household.yml:notify.yml`") {
		t.Error("the page does not say how the file is read")
	}
}

// An application behind the login needs its lines, and often a host of its own.
func TestCompose_LetsEveryStackHaveApplications(t *testing.T) {
	for file, site := range map[string]string{stacks[0]: "${SITE_ADDRESS:-:8080}", stacks[1]: "${SITE_ADDRESS:-${DOMAIN:-}}"} {
		services := readCompose(t, file).Services
		for setting, want := range map[string]string{"SITE_ADDRESS": site, "ROUTES": "${ROUTES:-}"} {
			if got := services["proxy"].Environment[setting]; got != want {
				t.Errorf("%s: %s of the proxy is %v", file, setting, got)
			}
		}
		if public, _ := services["auth"].Environment["PUBLIC_URL"].(string); !strings.HasPrefix(public, "${PUBLIC_URL:-") {
			t.Errorf("%s: auth's links begin with %s", file, public)
		}
	}
}

// The proxy's last list of applications is in the folder of its data, beside the certificates, unless APPS_FILE says
// otherwise: it outlives the container, and the proxy's user may write there.
func TestCompose_KeepsTheListOfApplications(t *testing.T) {
	const data = "/data"
	for _, file := range []string{stacks[0], stacks[1], household} {
		stack := readCompose(t, file)
		proxy := stack.Services["proxy"]
		volume := proxy.mounts(t)[data]
		if _, kept := stack.Volumes[volume]; !kept {
			t.Errorf("%s: %s of the proxy is %q, which is no volume", file, data, volume)
		}
		if apps, _ := proxy.Environment["APPS"].(string); apps == "" {
			t.Errorf("%s: the proxy has no APPS", file)
		}
		for _, setting := range []string{"APPS_FILE", "HOME", "XDG_DATA_HOME"} {
			if value := proxy.Environment[setting]; value != nil {
				t.Errorf("%s: %s of the proxy is %v", file, setting, value)
			}
		}
		for name, other := range stack.Services {
			if mounted := slices.Collect(maps.Values(other.mounts(t))); name != "proxy" && slices.Contains(mounted, volume) {
				t.Errorf("%s: %s sees the proxy's data", file, name)
			}
		}
	}
	for _, file := range []string{scale, evidence} { // are added to one of these
		if proxy := readCompose(t, file).Services["proxy"]; len(proxy.Volumes) > 0 {
			t.Errorf("%s: the proxy has other volumes", file)
		}
	}
	for file, lines := range map[string][]string{
		"deploy/Dockerfile": {
			"mkdir -p /owned" + data + " ", "COPY --from=build --chown=65532:65532 /owned /", " XDG_DATA_HOME=" + data + " ", "USER 65532:65532",
		},
		"deploy/release/image.go":             {`"XDG_DATA_HOME=` + data + `"`, ` "data", `},
		"deploy/systemd/pforte-proxy.service": {"\nStateDirectory=pforte/proxy\n", "\nEnvironment=XDG_DATA_HOME=%S/pforte/proxy\n"},
	} {
		for _, line := range lines {
			if !strings.Contains(text(t, file), line) {
				t.Errorf("%s has no %s", file, line)
			}
		}
	}
	if !strings.Contains(text(t, "proxy/README.md"), "| `APPS_FILE` |  | file with the last list of them; `caddy/apps.json` in `XDG_DATA_HOME` unless set |") {
		t.Error("the proxy's page says something else about the file")
	}
}

func TestCompose_SendsTracesOnlyIfAsked(t *testing.T) {
	for _, file := range []string{"docker-compose.yml", "deploy/compose.production.yml"} {
		services := environments(t, file)
		for service := range documented {
			for _, setting := range traceSettings(t) {
				if value, there := services[service][setting]; !there || value != nil {
					t.Errorf("%s: %s of %s is %v, there: %v", file, setting, service, value, there)
				}
			}
		}
	}
	for name, unit := range units {
		if unit.example != "" && !strings.Contains(systemd(t, unit.example), "\nOTEL_EXPORTER_OTLP_ENDPOINT=\n") {
			t.Errorf("%s has no place for a collector in %s", name, unit.example)
		}
	}
}

// The link is printed where auth's users are, and nothing waits for it in vain.
func TestCompose_PrintsTheSetUpLinkWithTheDatabaseAlone(t *testing.T) {
	for _, file := range stacks {
		services := readCompose(t, file).Services
		link, auth := services["setup-link"], services["auth"]
		var command []string
		if err := link.Command.Decode(&command); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(command, []string{"setup-link", "--or-login"}) || link.Image.Value != auth.Image.Value {
			t.Errorf("%s: it runs %v of %s", file, command, link.Image.Value)
		}
		want := map[string]any{"DATABASE_URL": auth.Environment["DATABASE_URL"], "PUBLIC_URL": auth.Environment["PUBLIC_URL"]}
		const first = "BOOTSTRAP_ADMIN_USERNAME"
		if name, there := auth.Environment[first]; there { // then there is no link
			want[first] = name
		}
		if want["PUBLIC_URL"] == nil || !maps.Equal(want, link.Environment) || !maps.Equal(link.mounts(t), map[string]string{"/data": auth.mounts(t)["/data"]}) {
			t.Errorf("%s: it sees %v and %v", file, link.Environment, link.mounts(t))
		}
		if link.NetworkMode != "none" || !link.ReadOnly || !slices.Equal(link.CapDrop, []string{"ALL"}) || !slices.Equal(link.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s: it may do %+v", file, link)
		}
		// It waits until auth has the database ready. In production it is run by hand, so
		// that the link is in no log.
		var after map[string]struct{ Condition string }
		if err := link.DependsOn.Decode(&after); err != nil || after["auth"].Condition != "service_healthy" {
			t.Errorf("%s: it starts after %v, %v", file, after, err)
		}
		if byHand := len(link.Profiles) > 0; byHand != (file == stacks[1]) {
			t.Errorf("%s: its profiles are %v", file, link.Profiles)
		}
	}
	var after map[string]struct {
		Condition string
		Required  *bool
	}
	proxy := readCompose(t, stacks[0]).Services["proxy"]
	if err := proxy.DependsOn.Decode(&after); err != nil {
		t.Fatal(err)
	}
	// `docker compose up --wait` takes the end of a container for a fault unless
	// another waits for it.
	if link := after["setup-link"]; link.Condition != "service_completed_successfully" || link.Required == nil || *link.Required {
		t.Errorf("the proxy waits for %+v", link)
	}
}

// `docker compose up --wait` fails where a container that it waits for has had its
// health check taken away, and waits in vain for one whose program has no command
// healthcheck, which the image asks for.
func TestCompose_LetsEveryServiceBeWaitedFor(t *testing.T) {
	for _, file := range stacks {
		services := readCompose(t, file).Services
		ends := map[string]bool{}
		for name, service := range services {
			var after map[string]struct{ Condition string }
			if service.DependsOn.Kind != yaml.MappingNode {
				continue
			}
			if err := service.DependsOn.Decode(&after); err != nil {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			for other, wanted := range after {
				ends[other] = ends[other] || wanted.Condition == "service_completed_successfully"
			}
		}
		for name, service := range services {
			if service.Healthcheck.Disable && len(service.Profiles) == 0 && !ends[name] {
				t.Errorf("%s: %s has no health check", file, name)
			}
			if strings.HasPrefix(service.Image.Value, "pforte/receipt:") && len(service.Healthcheck.Test) == 0 {
				t.Errorf("%s: %s is asked for healthcheck, which receipt does not have", file, name)
			}
		}
	}
}

// The command healthcheck says after three seconds that there was no answer. It must not be ended before.
func TestCompose_LetsAHealthCheckSayWhatItMissed(t *testing.T) {
	for _, file := range append([]string{household, evidence}, stacks...) {
		for name, service := range readCompose(t, file).Services {
			check := service.Healthcheck
			if slices.Contains(check.Test, "healthcheck") && check.Timeout != 0 && check.Timeout < 5*time.Second {
				t.Errorf("%s: the health check of %s is ended after %v", file, name, check.Timeout)
			}
		}
	}
}

// With what demo depends on, setup-link would start as well, and its new link would
// replace the one that somebody is about to open.
func TestCompose_PayingReplacesNoSetUpLink(t *testing.T) {
	command := regexp.MustCompile(`docker compose run((?: --?[a-z-]+)*) demo\b`)
	for _, file := range []string{"README.md", "docker-compose.yml"} {
		found := command.FindAllStringSubmatch(text(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s does not say how to pay", file)
		}
		for _, match := range found {
			if !strings.Contains(match[1], " --no-deps") {
				t.Errorf("%s: %s", file, match[0])
			}
		}
	}
}
