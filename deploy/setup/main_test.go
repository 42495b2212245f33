package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecrets_AreMadeOnceAndThePasswordShown(t *testing.T) {
	folder := t.TempDir()
	var first, second bytes.Buffer
	if err := run([]string{"-admin", folder}, none, nil, &first); err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, name := range []string{"session-secret", "data-key", "receipt-key.pem", "admin-password"} {
		made[name] = read(t, folder, name)
	}
	if !strings.Contains(first.String(), made["admin-password"]) || len(made["admin-password"]) < 20 {
		t.Errorf("it printed %s", &first)
	}
	for _, name := range []string{"session-secret", "data-key", "receipt-key.pem"} {
		if strings.Contains(first.String(), made[name]) {
			t.Errorf("it printed %s", name)
		}
	}
	if err := run([]string{"-admin", folder}, none, nil, &second); err != nil {
		t.Fatal(err)
	}
	if second.String() != first.String() {
		t.Errorf("it printed first %s, then %s", &first, &second)
	}
	for name, content := range made {
		if read(t, folder, name) != content {
			t.Errorf("%s was made anew", name)
		}
	}
}

func TestAdmin_NoPasswordIsMadeWithoutOne(t *testing.T) {
	folder := t.TempDir()
	var out bytes.Buffer
	if err := run([]string{folder}, none, nil, &out); err != nil || out.Len() != 0 {
		t.Errorf("got %v, %s", err, &out)
	}
	if _, err := os.Stat(filepath.Join(folder, "admin-password")); err == nil {
		t.Error("a password was made")
	}
}

func TestVersion_IsPrinted(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"--version"}, none, nil, &out); err != nil || !strings.HasPrefix(out.String(), "setup ") {
		t.Errorf("got %v, %s", err, &out)
	}
}

func TestFolder_ThatCannotBeWrittenIsAFault(t *testing.T) {
	if err := run([]string{filepath.Join(t.TempDir(), "none")}, none, nil, &bytes.Buffer{}); err == nil {
		t.Error("no fault")
	}
	if err := run(nil, none, nil, &bytes.Buffer{}); err == nil {
		t.Error("no folder is no fault")
	}
}

// read returns a file that only its owner may read.
func read(t *testing.T, folder, name string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %s", name, info.Mode())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func none(string) string { return "" }

func TestDatabases_GetARoleAndPasswordOnce(t *testing.T) {
	folder, roles := t.TempDir(), t.TempDir()
	settings := map[string]string{"POSTGRES_HOST": "db", "POSTGRES_ROLES": roles}
	getenv := func(name string) string { return settings[name] }
	urls := map[string]string{}
	for range 2 { // the second run keeps what the first made
		if err := run([]string{folder}, getenv, nil, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		for _, service := range []string{"auth", "verifier"} {
			made := read(t, folder, service+"-database-url")
			if kept, ok := urls[service]; ok && kept != made {
				t.Errorf("%s was made anew", service)
			}
			urls[service] = made
		}
	}
	for service, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		if u.Host != "db:5432" || u.User.Username() != service || u.Path != "/"+service || len(password) < 20 {
			t.Errorf("%s: a URL of %s at %s%s with %d characters of password", service, u.User.Username(), u.Host, u.Path, len(password))
		}
		sql, err := os.ReadFile(filepath.Join(roles, service+".sql"))
		if err != nil || !strings.Contains(string(sql), "ROLE "+service+" LOGIN PASSWORD '"+password+"';") {
			t.Errorf("%s.sql does not make the role of the URL", service)
		}
		info, err := os.Stat(filepath.Join(folder, service+"-database-url"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s-database-url is %v, %v", service, info.Mode(), err)
		}
	}
	if urls["auth"] == strings.ReplaceAll(urls["verifier"], "verifier", "auth") {
		t.Error("both have one password")
	}
	if info, err := os.Stat(filepath.Join(roles, "superuser-password")); err != nil || info.Mode().Perm() != 0o444 || info.Size() < 20 {
		t.Errorf("the superuser's password: %v", err)
	}
}

// apart returns a folder with one for each service.
func apart(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, service := range []string{"auth", "verifier", "redis"} {
		if err := os.Mkdir(filepath.Join(folder, service), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// files returns the paths of all files below a folder, with what is in them.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSecrets_OfEachServiceHaveTheirOwnFolder(t *testing.T) {
	folder := apart(t)
	settings := map[string]string{"REDIS_HOST": "redis", "POSTGRES_HOST": "db", "POSTGRES_ROLES": t.TempDir()}
	getenv := func(name string) string { return settings[name] }
	for range 2 {
		if err := run([]string{"-admin", folder}, getenv, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"-rotate", "session-secret"}, {"-rotate", "redis"}, {"-rotate", "databases"}, {"-announce"}, {"-rotate", "receipt-key"}, {"-announce"},
	} {
		if err := run(append(args, folder), getenv, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	made := slices.Sorted(maps.Keys(files(t, folder)))
	if diff := cmp.Diff([]string{
		"auth/admin-password", "auth/auth-database-url", "auth/data-key", "auth/data-key-previous", "auth/redis-url", "auth/session-secret", "auth/session-secret-previous",
		"redis/redis.conf",
		"verifier/receipt-key-next.pem", "verifier/receipt-key.pem", "verifier/retired-keys.json", "verifier/verifier-database-url",
	}, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
}

func TestDataKey_IsPutBackFromAFileOrStdin(t *testing.T) {
	key := strings.Repeat("0123456789abcdef", 4)
	file := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{file, "-"} {
		folder := apart(t)
		if err := run([]string{"-data-key", from, folder}, none, strings.NewReader(key+"\n"), io.Discard); err != nil || read(t, folder, "auth/data-key") != key {
			t.Errorf("%s: %v", from, err)
		}
	}
}

func TestRevokeReceiptKey_TakesACutOff(t *testing.T) {
	folder := t.TempDir()
	for _, args := range [][]string{{}, {"-announce"}} {
		if err := run(append(args, folder), none, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	var keys []struct{ KeyID, Status string }
	if err := json.Unmarshal([]byte(read(t, folder, "retired-keys.json")), &keys); err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	for _, wrong := range [][]string{
		{"-revoke", keys[0].KeyID, "-logged", "localhost:8080/v1/log/1"},
		{"-revoke", keys[0].KeyID, "-logged", "x:-1"},
		{"-logged", "x:1"},
		{"-revoke", keys[0].KeyID, "-announce"},
		{"-rotate", "all"},
		{"-rotate", "redis", "-data-key", "-"},
		{"-revoke", "another"},
	} {
		if err := run(append(wrong, folder), none, strings.NewReader(""), io.Discard); err == nil || !strings.Contains(read(t, folder, "retired-keys.json"), `"next"`) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if err := run([]string{"-revoke", keys[0].KeyID, "-logged", "localhost:8080/v1/log/2:12000 localhost:8080/v1/log/1:90", folder}, none, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	list := read(t, folder, "retired-keys.json")
	for _, want := range []string{`"revoked"`, `"localhost:8080/v1/log/2"`, `"12000"`, `"earlier"`, `"localhost:8080/v1/log/1"`, `"90"`} {
		if !strings.Contains(list, want) {
			t.Errorf("%s is not in\n%s", want, list)
		}
	}
}

func TestRedis_AndAuthGetOnePassword(t *testing.T) {
	folder := apart(t)
	getenv := func(name string) string { return map[string]string{"REDIS_HOST": "redis"}[name] }
	for range 3 {
		if err := run([]string{folder}, getenv, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(read(t, folder, "auth/redis-url"))
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		conf, err := os.ReadFile(filepath.Join(folder, "redis", "redis.conf"))
		if err != nil || string(conf) != "requirepass "+password+"\n" || len(password) < 20 || u.Host != "redis:6379" {
			t.Errorf("a password of %d characters for %s is not the one of redis.conf: %v", len(password), u.Host, err)
		}
		if info, err := os.Stat(filepath.Join(folder, "redis", "redis.conf")); err != nil || info.Mode().Perm() != 0o444 {
			t.Errorf("redis.conf: %v, %v", info.Mode(), err)
		}
		// One of the two is lost: both are made to agree.
		if err := os.Remove(filepath.Join(folder, "auth", "redis-url")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTakeover_SplitsOneFolderIntoSeveral(t *testing.T) {
	before, folder := t.TempDir(), apart(t)
	settings := map[string]string{"POSTGRES_HOST": "db", "POSTGRES_ROLES": t.TempDir()}
	getenv := func(name string) string { return settings[name] }
	if err := run([]string{"-admin", before}, getenv, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-announce", before}, getenv, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	old := files(t, before)
	if err := run([]string{"-admin", "-from", before, folder}, getenv, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	for path, content := range files(t, folder) {
		taken[filepath.Base(path)] = content
	}
	if diff := cmp.Diff(old, taken); diff != "" {
		t.Errorf("taken over (-before +after):\n%s", diff)
	}
	// What is changed later stays, and the key that signs by now is not announced anew.
	for _, what := range []string{"receipt-key", "session-secret"} {
		if err := run([]string{"-rotate", what, folder}, getenv, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	rotated := files(t, folder)
	if err := run([]string{"-admin", "-from", before, folder}, getenv, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rotated, files(t, folder)); diff != "" {
		t.Errorf("taken over again (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(old, files(t, before)); diff != "" {
		t.Errorf("the old folder changed, and the release before needs it (-before +after):\n%s", diff)
	}
}

// A copy that stopped in between is made again whole.
func TestTakeover_InPartIsDoneAgain(t *testing.T) {
	before, folder := t.TempDir(), apart(t)
	if err := run([]string{before}, none, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "verifier", "retired-keys.json"), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"-from", before, folder}, none, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	for service, name := range map[string]string{"verifier": "receipt-key.pem", "auth": "session-secret"} {
		if read(t, folder, filepath.Join(service, name)) != read(t, before, name) {
			t.Errorf("%s is another one", name)
		}
	}
}

func TestSettings_ThatAreMissingAreNamedAtOnce(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"DOMAIN": "home.example.org"}[name] }
	folder := t.TempDir()
	err := run([]string{"-require", "DOMAIN FACILITATOR_URL PAYMENT_PAY_TO", folder}, getenv, nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "not set: FACILITATOR_URL, PAYMENT_PAY_TO.") || len(files(t, folder)) > 0 {
		t.Errorf("got %v, and %d files", err, len(files(t, folder)))
	}
	for _, enough := range []string{"DOMAIN", "FACILITATOR_URL|DOMAIN"} {
		if err := run([]string{"-require", enough, folder}, getenv, nil, io.Discard); err != nil {
			t.Error(err)
		}
	}
	err = run([]string{"-require", "DOMAIN FACILITATOR_URL|CDP_API_KEY_ID", folder}, getenv, nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "not set: FACILITATOR_URL or CDP_API_KEY_ID.") {
		t.Errorf("got %v", err)
	}
}

func TestLog_WithAnotherWordThanOneIsRefused(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "1": true, "0": false, "2": false, "yes": false} {
		getenv := func(name string) string { return map[string]string{"RECEIPT_LOG": value}[name] }
		folder := t.TempDir()
		err := run([]string{folder}, getenv, nil, io.Discard)
		if (err == nil) != ok || !ok && (!strings.Contains(err.Error(), "RECEIPT_LOG") || len(files(t, folder)) > 0) {
			t.Errorf("%q: got %v, and %d files", value, err, len(files(t, folder)))
		}
	}
}

func TestAddress_IsShownWithThePassword(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"PUBLIC_URL": "http://localhost:8080"}[name] }
	var out bytes.Buffer
	if err := run([]string{"-admin", t.TempDir()}, getenv, nil, &out); err != nil || !strings.HasPrefix(out.String(), "http://localhost:8080: log in as admin, password ") {
		t.Errorf("got %v, %s", err, &out)
	}
}

func TestLog_IsAddedToAnInstallation(t *testing.T) {
	folder := apart(t)
	for _, service := range []string{"witness-1", "witness-2", "mirror"} {
		if err := os.Mkdir(filepath.Join(folder, service), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := run([]string{folder}, none, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	before := files(t, folder)
	for name := range before {
		if strings.Contains(name, "log-") || strings.Contains(name, "witness") {
			t.Errorf("without LOG_WITNESSES there is %s", name)
		}
	}
	settings := map[string]string{"LOG_WITNESSES": "http://witness-1:8090 http://witness-2:8090"}
	getenv := func(name string) string { return settings[name] }
	if err := run([]string{folder}, getenv, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "PUBLIC_URL") {
		t.Errorf("without an address: %v", err)
	}
	settings["PUBLIC_URL"] = "https://home.example.org"
	var first map[string]string
	for range 2 {
		if err := run([]string{folder}, getenv, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = files(t, folder)
		}
	}
	after := files(t, folder)
	if diff := cmp.Diff(first, after); diff != "" {
		t.Errorf("a second run changed (-before +after):\n%s", diff)
	}
	added := []string{}
	for name, content := range after {
		if _, there := before[name]; !there {
			added = append(added, name)
		} else if before[name] != content {
			t.Errorf("%s was changed", name)
		}
	}
	slices.Sort(added)
	if diff := cmp.Diff([]string{
		"mirror/log-policy", "verifier/log-key.pem", "verifier/log-policy",
		"witness-1/log-policy", "witness-1/witness-1-key.pem", "witness-1/witness-1-state.json",
		"witness-2/log-policy", "witness-2/witness-2-key.pem", "witness-2/witness-2-state.json",
	}, added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	if policy := after["verifier/log-policy"]; !strings.Contains(policy, "log home.example.org/v1/log/1+") || !strings.Contains(policy, " http://witness-2:8090\n") {
		t.Errorf("the policy is\n%s", policy)
	}
}

func TestHousehold_HasNoSecretsOfAVerifier(t *testing.T) {
	folder := t.TempDir()
	for _, own := range []string{"auth", "redis", "users"} {
		if err := os.Mkdir(filepath.Join(folder, own), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string { return map[string]string{"REDIS_HOST": "redis"}[name] }
	if err := run([]string{"--household", folder}, getenv, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	made := files(t, folder)
	if diff := cmp.Diff([]string{
		"auth/data-key", "auth/data-key-previous", "auth/redis-url", "auth/session-secret", "auth/session-secret-previous", "redis/redis.conf",
	}, slices.Sorted(maps.Keys(made))); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	// A second file may add the verifier; what the household has stays.
	for _, args := range [][]string{{"--household", folder}, {folder}} {
		if args[0] == folder {
			if err := os.Mkdir(filepath.Join(folder, "verifier"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(args, getenv, nil, io.Discard); err != nil {
			t.Fatal(err)
		}
		for name, content := range files(t, folder) {
			if before, there := made[name]; there && before != content {
				t.Errorf("setup %s made %s anew", args, name)
			} else if !there && !strings.HasPrefix(name, "verifier/") {
				t.Errorf("setup %s made %s", args, name)
			}
		}
	}
	read(t, folder, "verifier/receipt-key.pem")
	// A restore that failed, whose mark is beside the users.
	if err := os.WriteFile(filepath.Join(folder, "users", "restore-unfinished"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"--household", folder}, getenv, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "restore") {
		t.Errorf("after a restore that failed: %v", err)
	}
}

func TestHousehold_OfUnitsIsSetUpByThreeCommands(t *testing.T) {
	folder, env := t.TempDir(), t.TempDir()
	getenv := func(name string) string { return map[string]string{"DOMAIN": "home.example.org"}[name] }
	if err := run([]string{"--env", env, folder}, getenv, nil, io.Discard); err == nil {
		t.Error("-env without -household is no fault")
	}
	var out bytes.Buffer
	if err := run([]string{"--household", "--env", env, folder}, getenv, nil, &out); err != nil {
		t.Fatal(err)
	}
	redis := read(t, folder, "redis-url")
	for name, want := range map[string]string{
		"auth.env":   "PUBLIC_URL=https://home.example.org\nREDIS_URL=" + redis + "\n",
		"proxy.env":  "SITE_ADDRESS=home.example.org\nVERIFIER_UPSTREAM=off\nAPPS=lan\n",
		"backup.env": "LEDGER_DATABASE_URL=none\nRECEIPT_SIGNING_KEY_FILE=none\nRESTORE_MARKS=" + folder + "\n",
	} {
		if got := read(t, env, name); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
	if !strings.HasPrefix(redis, "redis://:") || !strings.HasSuffix(redis, "@127.0.0.1:6379") {
		t.Errorf("Redis is elsewhere")
	}
	commands := strings.Split(strings.TrimSpace(out.String()), "\n")[2:]
	if len(commands) != 3 || strings.Contains(out.String(), redis[9:20]) || !strings.Contains(commands[2], " PUBLIC_URL=https://home.example.org ") {
		t.Errorf("it prints\n%s", &out)
	}
	// What the operator changed stays.
	if err := os.WriteFile(filepath.Join(env, "proxy.env"), []byte("SITE_ADDRESS=other.example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"--household", "--env", env, folder}, getenv, nil, io.Discard); err != nil || read(t, env, "proxy.env") != "SITE_ADDRESS=other.example.org\n" {
		t.Errorf("it was changed: %v", err)
	}
	// Without a domain it is a trial on this machine.
	trial := t.TempDir()
	if err := run([]string{"--household", "--env", trial, folder}, none, nil, io.Discard); err != nil || !strings.HasPrefix(read(t, trial, "auth.env"), "PUBLIC_URL=http://localhost\n") {
		t.Errorf("a trial: %v", err)
	}
}
