package secrets_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/secrets"
)

const scaled = "../../compose.scale.yml"

// both are the stacks that compose.scale.yml goes over.
var both = []string{"../../../docker-compose.yml", "../../compose.production.yml"}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// names returns the keys right below a section of a compose file.
func names(t *testing.T, file, section string) map[string]string {
	t.Helper()
	_, rest, ok := strings.Cut("\n"+text(t, file), "\n"+section+":\n")
	if !ok {
		t.Fatalf("%s has no %s", file, section)
	}
	if end := regexp.MustCompile(`(?m)^\S`).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	found := map[string]string{}
	at := regexp.MustCompile(`(?m)^  ([a-z-]+):`).FindAllStringSubmatchIndex(rest, -1)
	for i, match := range at {
		end := len(rest)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		found[rest[match[2]:match[3]]] = rest[match[1]:end]
	}
	return found
}

func TestScaledStack_ChangesServicesOfBothStacks(t *testing.T) {
	for _, base := range both {
		services := names(t, base, "services")
		for service := range names(t, scaled, "services") {
			if _, there := services[service]; !there && service != "postgres" {
				t.Errorf("%s has no service %s", base, service)
			}
		}
	}
}

func TestScaledStack_ReadsTheSecretsOfSetup(t *testing.T) {
	folder, roles := t.TempDir(), t.TempDir()
	for _, service := range []string{"auth", "verifier"} {
		if err := os.Mkdir(filepath.Join(folder, service), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := secrets.MakeDatabases(folder, roles, "postgres"); err != nil {
		t.Fatal(err)
	}
	services := names(t, scaled, "services")
	for made, prefix := range map[string]string{folder: "/secrets/", roles: "/docker-entrypoint-initdb.d/"} {
		for _, match := range regexp.MustCompile(prefix+`([a-z/-]+-(?:url|password))`).FindAllStringSubmatch(text(t, scaled), -1) {
			if _, err := os.Stat(filepath.Join(made, match[1])); err != nil {
				t.Errorf("%s%s: %v", prefix, match[1], err)
			}
		}
	}
	for _, service := range []string{"auth", "verifier"} {
		if !strings.Contains(services[service], "DATABASE_URL_FILE: /secrets/"+service+"/"+service+"-database-url\n") {
			t.Errorf("%s does not use its Postgres", service)
		}
		if !strings.Contains(services[service], "SHUTDOWN_DELAY: 5s") { // the proxy needs up to 3
			t.Errorf("%s takes no leave", service)
		}
		for _, number := range []string{"1", "2"} {
			if replica := "${COMPOSE_PROJECT_NAME}-" + service + "-" + number + ":"; !strings.Contains(services["proxy"], replica) {
				t.Errorf("the proxy does not know %s", replica)
			}
		}
	}
	if !strings.Contains(services["auth"], "{replicas: 2}") || !strings.Contains(services["verifier"], "<<: *replicas") {
		t.Error("there are not two replicas of each service")
	}
}
