package arch

import (
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/secrets"
)

// stacks are the compose files that stand alone, and scale the one that goes over
// either.
var stacks = []string{"docker-compose.yml", "deploy/compose.production.yml"}

const scale = "deploy/compose.scale.yml"

// holders are the services that see secrets they do not use: setup makes them all,
// backup saves those of the verifier, setup-link reads the URL of auth's Postgres.
var holders = map[string][]string{"setup": {"auth", "verifier", "redis", "witness-1", "witness-2"}, "backup": {"verifier"}, "setup-link": {"auth"}}

// madeSecrets returns the files that setup makes for each service, as the stacks
// let it.
func madeSecrets(t *testing.T, databases bool) map[string][]string {
	t.Helper()
	folder := t.TempDir()
	for _, service := range []string{"auth", "verifier", "redis", "witness-1", "witness-2", "mirror"} {
		if err := os.Mkdir(filepath.Join(folder, service), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	try := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	try(secrets.Make(folder))
	try(secrets.MakeRedis(folder, "redis"))
	try(secrets.MakeLog(folder, "home.example.org", []string{"http://witness-1:8090", "http://witness-2:8090"}))
	if databases {
		try(secrets.MakeDatabases(folder, t.TempDir(), "postgres"))
	}
	made := map[string][]string{}
	try(fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			service, name, _ := strings.Cut(path, "/")
			made[service] = append(made[service], name)
		}
		return err
	}))
	return made
}

func TestSecrets_ContainersSeeTheirOwnOnly(t *testing.T) {
	for _, file := range append(slices.Clone(stacks), scale, household, evidence) {
		for name, service := range readCompose(t, file).Services {
			for target, source := range service.mounts(t) {
				owner, isSecret := strings.CutSuffix(source, "-secrets")
				switch {
				case source == "secrets" && name != "setup":
					t.Errorf("%s: %s sees the volume that all shared", file, name)
				case isSecret && target != "/secrets/"+owner:
					t.Errorf("%s: %s has %s at %s", file, name, source, target)
				case isSecret && name != owner && !slices.Contains(holders[name], owner):
					t.Errorf("%s: %s sees the secrets of %s", file, name, owner)
				case source == "roles" && name != "setup" && name != "postgres":
					t.Errorf("%s: %s sees the passwords of Postgres", file, name)
				}
			}
		}
	}
}

// What a container sees and has no setting for, it does not need.
func TestSecrets_HaveASettingInTheirService(t *testing.T) {
	for _, file := range stacks {
		base, over := readCompose(t, file).Services, readCompose(t, scale).Services
		for _, scaled := range []bool{false, true} {
			for owner, files := range madeSecrets(t, scaled) {
				used := []string{}
				settings := maps.Clone(base[owner].Environment)
				if scaled {
					maps.Copy(settings, over[owner].Environment)
				}
				for setting, value := range settings {
					path, _ := value.(string)
					if name, is := strings.CutPrefix(whenSet(path), "/secrets/"+owner+"/"); is && strings.HasSuffix(setting, "_FILE") {
						used = append(used, name)
					}
				}
				// Redis, witnesses and mirror have no environment.
				for _, match := range regexp.MustCompile(`/secrets/`+owner+`/([\w.-]+)`).FindAllStringSubmatch(base[owner].Command.Value, -1) {
					used = append(used, match[1])
				}
				slices.Sort(used)
				if diff := cmp.Diff(files, used); diff != "" {
					t.Errorf("%s, scaled %v: %s sees and uses (-sees +uses):\n%s", file, scaled, owner, diff)
				}
			}
		}
	}
}

func TestRedis_RefusesClientsWithoutItsPassword(t *testing.T) {
	for _, file := range append(slices.Clone(stacks), household) {
		services := readCompose(t, file).Services
		redis := services["redis"]
		if command := redis.Command.Value; !strings.HasPrefix(command, "redis-server /secrets/redis/redis.conf ") || strings.Contains(command, "protected-mode") {
			t.Errorf("%s: %s", file, command)
		}
		if check := strings.Join(redis.Healthcheck.Test, " "); !strings.Contains(check, "REDISCLI_AUTH=") || !strings.Contains(check, "PONG") {
			t.Errorf("%s: health is checked by %s", file, check)
		}
		auth := services["auth"].Environment
		if _, plain := auth["REDIS_URL"]; plain || auth["REDIS_URL_FILE"] == nil || services["setup"].Environment["REDIS_HOST"] != "redis" {
			t.Errorf("%s: auth has no password for Redis", file)
		}
	}
}

// members returns which services are on each network.
func members(t *testing.T, services map[string]composeService) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, service := range services {
		for network := range service.joined(t) {
			found[network] = append(found[network], name)
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}

func TestNetworks_LeadOnlyWhereNeeded(t *testing.T) {
	want := map[string]map[string][]string{
		stacks[0]: {
			"outside": {"demo", "devnet", "proxy"}, "auth": {"auth", "proxy"}, "verifier": {"proxy", "verifier"},
			"stores": {"auth", "redis"}, "chain": {"demo", "devnet", "verifier"}, "witnesses": {"mirror", "verifier", "witness-1", "witness-2"},
		},
		// The verifier has a way out of its own: on one network with the proxy, it
		// would be called from another address than the one it trusts.
		stacks[1]: {
			"outside": {"proxy"}, "apps": {"proxy"}, "auth": {"auth", "proxy"}, "verifier": {"proxy", "verifier"},
			"stores": {"auth", "redis"}, "nodes": {"verifier"}, "witnesses": {"mirror", "verifier", "witness-1", "witness-2"},
		},
		scale: {"accounts": {"auth", "postgres", "setup-link"}, "ledger": {"postgres", "verifier"}},
	}
	want[household] = map[string][]string{"outside": {"proxy"}, "apps": {"proxy"}, "auth": {"auth", "proxy"}, "stores": {"auth", "redis"}}
	want[evidence] = map[string][]string{"verifier": {"proxy", "verifier"}, "nodes": {"verifier"}}
	open := []string{"outside", "nodes"}
	for file, networks := range want {
		stack := readCompose(t, file)
		if diff := cmp.Diff(networks, members(t, stack.Services)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		for name, network := range stack.Networks {
			if network.Internal == slices.Contains(open, name) {
				t.Errorf("%s: %s is internal: %v", file, name, network.Internal)
			}
		}
	}
}

var variable = regexp.MustCompile(`\$\{[A-Z0-9_]+:?-([^}]*)\}`)

// whenSet returns what stands in a file for a variable that is set.
func whenSet(text string) string {
	return regexp.MustCompile(`\$\{[A-Z0-9_]+:\+([^}]*)\}`).ReplaceAllString(text, "$1")
}

// plain puts the defaults in place of variables.
func plain(text string) string { return variable.ReplaceAllString(text, "$1") }

// The gateway of a network, from where every process of the host comes, is not
// believed, and no other container gets the proxy's address.
func TestNetworks_ServicesTrustTheProxyAlone(t *testing.T) {
	for _, file := range append(slices.Clone(stacks), household, evidence) {
		stack := readCompose(t, file)
		for _, service := range []string{"auth", "verifier"} {
			if _, there := stack.Networks[service]; !there && !slices.Contains(stacks, file) {
				continue
			}
			believed, _ := stack.Services[service].Environment["TRUSTED_PROXIES"].(string)
			address := stack.Services["proxy"].joined(t)[service]
			if believed == "" || believed != address {
				t.Errorf("%s: %s believes %s, and the proxy is %s", file, service, believed, address)
			}
			if len(stack.Networks[service].IPAM.Config) != 1 {
				t.Fatalf("%s: %s has not one subnet", file, service)
			}
			config := stack.Networks[service].IPAM.Config[0]
			proxy, err := netip.ParseAddr(plain(address))
			if err != nil {
				t.Fatal(err)
			}
			subnet, others := netip.MustParsePrefix(plain(config.Subnet)), netip.MustParsePrefix(plain(config.IPRange))
			if !subnet.Contains(proxy) || others.Contains(proxy) || !subnet.Contains(others.Addr()) || plain(config.Gateway) == plain(address) {
				t.Errorf("%s: the proxy is %s in %s, others get one of %s", file, proxy, subnet, others)
			}
		}
	}
}

func TestNetworks_ApplicationsDoNotReachMetrics(t *testing.T) {
	proxy := readCompose(t, stacks[1]).Services["proxy"]
	addresses := proxy.joined(t)
	if bind := proxy.Environment["ADMIN_BIND"]; bind != addresses["auth"]+" "+addresses["verifier"] {
		t.Errorf("they are at %v", bind)
	}
}

func TestNetworks_IPv6ClientsKeepTheirAddresses(t *testing.T) {
	outside := readCompose(t, stacks[1]).Networks["outside"]
	if plain(outside.EnableIPv6) != "true" || len(outside.IPAM.Config) != 1 {
		t.Fatalf("outside is %+v", outside)
	}
	if subnet := netip.MustParsePrefix(plain(outside.IPAM.Config[0].Subnet)); !netip.MustParsePrefix("fd00::/8").Contains(subnet.Addr()) || subnet.Bits() != 64 {
		t.Errorf("its subnet is %s", subnet)
	}
}

func TestImages_OfOursAreNotPulled(t *testing.T) {
	for _, file := range stacks {
		for name, service := range readCompose(t, file).Services {
			ours := strings.HasPrefix(service.Image.Value, "pforte/")
			if ours != (service.PullPolicy == "never") {
				t.Errorf("%s: %s is %s, pulled %s", file, name, service.Image.Value, service.PullPolicy)
			}
			if !ours && !strings.HasPrefix(service.Image.Value, "${") {
				t.Errorf("%s: %s cannot be named by its digest", file, service.Image.Value)
			}
		}
	}
}

// A variable that compose itself demands is named alone, and stops "down" as well.
func TestSetup_NamesEverySettingOfProduction(t *testing.T) {
	file := text(t, stacks[1])
	if strings.Contains(file, ":?") {
		t.Error("compose demands a variable")
	}
	setup := readCompose(t, stacks[1]).Services["setup"]
	var command []string
	if err := setup.Command.Decode(&command); err != nil {
		t.Fatal(err)
	}
	at := slices.Index(command, "-require")
	if at < 0 {
		t.Fatalf("setup gets %v", command)
	}
	for _, either := range strings.Fields(command[at+1]) {
		names := strings.Split(either, "|")
		for _, name := range names {
			if setup.Environment[name] != "${"+name+":-}" {
				t.Errorf("setup does not see %s", name)
			}
		}
		if !strings.Contains(text(t, "deploy/docs/operations.md"), "\n"+names[0]+"=") {
			t.Errorf("the page does not set %s", names[0])
		}
	}
}

var block = regexp.MustCompile("(?s)```\n(.*?)```")

// A block that goes on after a fault would remove volumes that nothing has saved,
// or start a stack that nothing was put back to. In parentheses it is read as a
// whole before any of it runs, also where it is pasted. What save writes to standard
// output of a container may begin with what the builder prints.
func TestCommands_OfBackupStopAtTheFirstFault(t *testing.T) {
	checked := 0
	for _, page := range []string{"backup.md", "keys.md", "upgrade.md"} {
		for _, match := range block.FindAllStringSubmatch(text(t, "deploy/docs/"+page), -1) {
			commands := match[1]
			if regexp.MustCompile(`backup save[^|]*>`).MatchString(commands) {
				t.Errorf("%s writes an archive by way of a shell:\n%s", page, commands)
			}
			if strings.Count(commands, "\n") < 3 || !strings.Contains(commands, "backup ") && !strings.Contains(commands, "-rotate") {
				continue
			}
			checked++
			if !strings.HasPrefix(commands, "(set -e\n") || !strings.Contains(commands, "\n)\n") {
				t.Errorf("%s goes on after a fault:\n%s", page, commands)
			}
		}
	}
	if checked < 5 {
		t.Errorf("%d blocks were looked at", checked)
	}
}

// A restore in place has the only data key in auth's volume, and one on a new machine has the copy
// that was saved. Volumes are named by the project, so that a rehearsal removes none of the stack.
func TestCommands_RestoreKeepsTheDataKeyAndItsOwnProject(t *testing.T) {
	var saved, put int
	for _, match := range block.FindAllStringSubmatch(text(t, "deploy/docs/backup.md"), -1) {
		commands := match[1]
		if !strings.Contains(commands, "docker compose -p $PROJECT ") {
			continue
		}
		if strings.Contains(commands, " backup save ") && strings.Contains(commands, "$P cp auth:/secrets/auth/data-key /etc/pforte/data-key\n") {
			saved++
		}
		restore, start := strings.Index(commands, " backup restore "), strings.LastIndex(commands, "$P up -d\n")
		if at := strings.Index(commands, " setup -data-key - /secrets < /etc/pforte/data-key;"); restore > 0 && restore < at && at < start {
			put++
		}
		for line := range strings.Lines(commands) {
			if strings.HasPrefix(line, "docker volume rm") && (strings.Contains(line, "auth-secrets") || strings.Contains(line, "pforte-")) {
				t.Errorf("it removes %s", line)
			}
		}
	}
	if saved != 2 || put != 2 {
		t.Errorf("%d blocks save the key, %d put it back", saved, put)
	}
}

// What an archive leaves out, a dump does too: logins that ended would be back.
func TestCommands_DumpsLeaveOutWhatArchivesDo(t *testing.T) {
	code := text(t, "deploy/internal/backup/items.go")
	all := regexp.MustCompile(`var leftOut = \[\]string\{([^}]*)\}`).FindStringSubmatch(code)
	if all == nil {
		t.Fatal("the tables that archives leave out are not found")
	}
	tables := regexp.MustCompile(`\w+`).FindAllString(all[1], -1)
	dumps := regexp.MustCompile(`pg_dump .*`).FindAllString(text(t, "deploy/docs/backup.md"), -1)
	checked := 0
	for _, dump := range dumps {
		if !strings.Contains(dump, "-U postgres") {
			continue
		}
		checked++
		pattern := regexp.MustCompile(`--exclude-table-data='([^']+)'`).FindStringSubmatch(dump)
		for _, table := range tables {
			if pattern == nil || !regexp.MustCompile("^("+pattern[1]+")$").MatchString(table) {
				t.Errorf("%s has the rows of %s", dump, table)
			}
		}
	}
	if checked == 0 || len(tables) < 3 {
		t.Errorf("%d dumps and %d tables were looked at", checked, len(tables))
	}
}

// Two stacks on one machine differ in these.
func TestCompose_PortsAndNetworkCanBeMoved(t *testing.T) {
	for _, file := range stacks {
		for line := range strings.Lines(text(t, file)) {
			trimmed := strings.TrimSpace(line)
			if strings.HasPrefix(trimmed, "ports:") && trimmed != "ports: []" &&
				strings.Count(trimmed, "_PORT:-") != strings.Count(trimmed, ",")+1 {
				t.Errorf("%s: %s", file, trimmed)
			}
		}
		if regexp.MustCompile(`name: [\w-]+, internal`).MatchString(text(t, file)) {
			t.Errorf("%s has a network of a fixed name", file)
		}
	}
}
