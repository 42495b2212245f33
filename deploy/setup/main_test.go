package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsAreMadeOnceAndThePasswordIsShownOnce(t *testing.T) {
	folder := t.TempDir()
	var first, second bytes.Buffer
	if err := run([]string{"-admin", folder}, none, &first); err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, name := range []string{"session-secret", "receipt-key.pem", "admin-password"} {
		made[name] = read(t, folder, name)
	}
	if !strings.Contains(first.String(), made["admin-password"]) || len(made["admin-password"]) < 20 {
		t.Errorf("it said %s", &first)
	}
	for _, name := range []string{"session-secret", "receipt-key.pem"} {
		if strings.Contains(first.String(), made[name]) {
			t.Errorf("it told %s", name)
		}
	}
	if err := run([]string{"-admin", folder}, none, &second); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(second.String(), made["admin-password"]) {
		t.Errorf("it said again %s", &second)
	}
	for name, content := range made {
		if read(t, folder, name) != content {
			t.Errorf("%s was made anew", name)
		}
	}
}

func TestWithoutAdminNoPasswordIsMade(t *testing.T) {
	folder := t.TempDir()
	var out bytes.Buffer
	if err := run([]string{folder}, none, &out); err != nil || out.Len() != 0 {
		t.Errorf("got %v, %s", err, &out)
	}
	if _, err := os.Stat(filepath.Join(folder, "admin-password")); err == nil {
		t.Error("a password was made")
	}
}

func TestItSaysItsVersion(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"--version"}, none, &out); err != nil || !strings.HasPrefix(out.String(), "setup ") {
		t.Errorf("got %v, %s", err, &out)
	}
}

func TestAFolderThatCannotBeWrittenIsAFault(t *testing.T) {
	if err := run([]string{filepath.Join(t.TempDir(), "none")}, none, &bytes.Buffer{}); err == nil {
		t.Error("no fault")
	}
	if err := run(nil, none, &bytes.Buffer{}); err == nil {
		t.Error("no folder is no fault")
	}
}

// read gives a file that nobody else may read.
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

func TestDatabasesGetARoleAndAPasswordOfTheirOwnOnce(t *testing.T) {
	folder, roles := t.TempDir(), t.TempDir()
	settings := map[string]string{"POSTGRES_HOST": "db", "POSTGRES_ROLES": roles}
	getenv := func(name string) string { return settings[name] }
	urls := map[string]string{}
	for range 2 { // the second run keeps what the first made
		if err := run([]string{folder}, getenv, &bytes.Buffer{}); err != nil {
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
