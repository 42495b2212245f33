package kubernetes

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// folders are those of the programs, by the name of their Deployment.
var folders = map[string]string{"auth": "../../services/auth", "verifier": "../../services/verifier", "proxy": "../../proxy"}

// setting is a row of a README's table.
type setting struct{ fallback string }

// settings reads a program's README.
func settings(t *testing.T, program string) map[string]setting {
	t.Helper()
	readme, err := os.ReadFile(folders[program] + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]setting{}
	row := regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)`(?: \\(or `([A-Z0-9_]+)`\\))? \\| (.*?) \\|")
	for _, match := range row.FindAllStringSubmatch(string(readme), -1) {
		found[match[1]] = setting{fallback: strings.Trim(match[3], "`")}
		if match[2] != "" {
			found[match[2]] = setting{}
		}
	}
	for _, match := range regexp.MustCompile("`(OTEL_[A-Z_]+)`").FindAllStringSubmatch(string(readme), -1) {
		if _, listed := found[match[1]]; !listed {
			found[match[1]] = setting{}
		}
	}
	if len(found) < 10 {
		t.Fatalf("the README of %s has %d settings", program, len(found))
	}
	return found
}

type configMap struct{ Data map[string]string }

// configOf returns the settings that a Deployment's ConfigMap holds.
func configOf(t *testing.T, objects []Object, d deployment) map[string]string {
	t.Helper()
	c := d.container(t)
	if len(c.EnvFrom) != 1 {
		t.Fatalf("%s takes its settings from %d places", c.Name, len(c.EnvFrom))
	}
	config, ok := of[configMap](t, objects, "ConfigMap")[c.EnvFrom[0].ConfigMapRef.Name]
	if !ok {
		t.Fatalf("there is no ConfigMap %s", c.EnvFrom[0].ConfigMapRef.Name)
	}
	return config.Data
}

func TestSettings_AreThoseOfThePrograms(t *testing.T) {
	objects := build(t, "example")
	for _, d := range of[deployment](t, objects, "Deployment") {
		name := d.container(t).Name
		known, given := settings(t, name), configOf(t, objects, d)
		for setting := range given {
			if _, ok := known[setting]; !ok {
				t.Errorf("%s has no setting %s", name, setting)
			}
		}
		for setting, row := range known {
			if row.fallback == "required" && given[setting] == "" && given[setting+"_FILE"] == "" {
				t.Errorf("%s needs %s", name, setting)
			}
		}
	}
}

// Without them authenticator apps cannot be set up, and passkeys and links have no address.
func TestSettings_LetAuthSealSecrets(t *testing.T) {
	objects := build(t, "example")
	given := configOf(t, objects, of[deployment](t, objects, "Deployment")["auth"])
	if given["DATA_KEY_FILE"] == "" || !strings.HasPrefix(given["PUBLIC_URL"], "https://") {
		t.Errorf("auth has DATA_KEY_FILE=%s, PUBLIC_URL=%s", given["DATA_KEY_FILE"], given["PUBLIC_URL"])
	}
}

func TestSecrets_AreMountedEveryOne(t *testing.T) {
	objects := build(t, "example")
	type secret struct{ Data map[string]string }
	secrets := of[secret](t, objects, "Secret")
	for _, d := range of[deployment](t, objects, "Deployment") {
		c := d.container(t)
		for setting, path := range configOf(t, objects, d) {
			file, ok := strings.CutPrefix(path, "/secrets/")
			if !strings.HasSuffix(setting, "_FILE") || !ok {
				continue
			}
			mounted := secrets[d.volume(c.mount("/secrets")).Secret.SecretName]
			if _, ok := mounted.Data[file]; !ok {
				t.Errorf("%s: %s=%s is not in the Secret", c.Name, setting, path)
			}
		}
	}
}

func TestPorts_AreThoseOfThePrograms(t *testing.T) {
	objects := build(t, "example")
	services := of[service](t, objects, "Service")
	for _, d := range of[deployment](t, objects, "Deployment") {
		c := d.container(t)
		known, given := settings(t, c.Name), configOf(t, objects, d)
		main := port(first(given["ADDR"], known["ADDR"].fallback, given["SITE_ADDRESS"], known["SITE_ADDRESS"].fallback))
		admin := port(first(given["ADMIN_ADDR"], known["ADMIN_ADDR"].fallback, ":"+first(given["ADMIN_PORT"], known["ADMIN_PORT"].fallback)))
		if c.port("http") != main || c.port("admin") != admin {
			t.Errorf("%s has the ports %+v, and listens on %d and %d", c.Name, c.Ports, main, admin)
		}
		s := services[c.Name].Spec
		if len(s.Ports) != 1 || s.Ports[0].Port != main || s.Ports[0].TargetPort != "http" || !selects(s.Selector, d.Spec.Template.Metadata.Labels) {
			t.Errorf("the Service %s is %+v", c.Name, s)
		}
		if bound := first(given["ADMIN_ADDR"], given["ADMIN_BIND"]+":"); strings.HasPrefix(bound, "127.") {
			t.Errorf("%s: the kubelet cannot reach %s", c.Name, bound)
		}
	}
	proxy := configOf(t, objects, of[deployment](t, objects, "Deployment")["proxy"])
	for _, name := range []string{"auth", "verifier"} {
		if want := fmt.Sprintf("%s:%d", name, services[name].Spec.Ports[0].Port); proxy[strings.ToUpper(name)+"_UPSTREAM"] != want {
			t.Errorf("the proxy does not call %s", want)
		}
	}
}

func TestImages_AreThoseOfCompose(t *testing.T) {
	compose, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, match := range regexp.MustCompile(`(?m)^    image: (pforte/[a-z]+)`).FindAllStringSubmatch(string(compose), -1) {
		built = append(built, match[1])
	}
	for name, d := range of[deployment](t, build(t, "base"), "Deployment") {
		if image := d.container(t).Image; !slices.Contains(built, image) {
			t.Errorf("%s: no target builds %s", name, image)
		}
	}
	for name, d := range of[deployment](t, build(t, "example"), "Deployment") {
		if image := d.container(t).Image; image != "registry.example.org/pforte/"+name+":v1.0.0" {
			t.Errorf("%s: the example has %s", name, image)
		}
	}
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func port(addr string) int {
	var number int
	if _, err := fmt.Sscanf(addr[strings.LastIndex(addr, ":")+1:], "%d", &number); err != nil {
		return 0
	}
	return number
}
