package app_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestOperator_EntersWhatLogsUsersInByOpenIDConnect(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t), "PUBLIC_URL", "https://home.example.org")
	mustOperate(t, environment, "battery staple", "user", "add", "otto")
	mustOperate(t, environment, "", "app", "add", "grafana", "https://grafana.example.org")
	const at = "https://grafana.example.org/login/generic_oauth"
	if code, out := operate(t, environment, "", "oidc", "add", "grafana", "--redirect", at); code != 1 || !strings.Contains(out, "DATA_KEY is not set") {
		t.Errorf("without DATA_KEY: %d %s", code, out)
	}
	environment["DATA_KEY"] = strings.Repeat("0123456789abcdef", 4)
	made := mustOperate(t, environment, "", "oidc", "add", "grafana", "--redirect", at, "--redirect", at+"/2", "--groups", "always")
	secret := regexp.MustCompile(`client secret  (pfc_\S{43})\n`).FindStringSubmatch(made)
	if secret == nil || !strings.Contains(made, "\nissuer         https://home.example.org/pforte\nclient id      grafana\n") {
		t.Fatalf("made is %s", made)
	}
	for what, args := range map[string][]string{
		"already": {"add", "grafana", "--redirect", at}, "no such application": {"add", "nothing", "--redirect", at}, "cannot be led back to": {"set", "grafana", "--redirect", "javascript:x"},
		"none of the known values": {"set", "grafana", "--alg", "HS256"}, "does not have users log in": {"set", "nothing", "--ask"}, "no such user": {"preview", "grafana", "nobody"},
		"no such connection": {"end", "x"}, "no such secret": {"secret", "grafana", "--remove", "99"}, "no such key": {"keys", "revoke", "x"},
	} {
		if code, out := operate(t, environment, "", append([]string{"oidc"}, args...)...); code != 1 || !strings.Contains(out, what) {
			t.Errorf("auth oidc %v: %d %s", args, code, out)
		}
	}
	mustOperate(t, environment, "", "oidc", "set", "grafana", "--alg", "ES256", "--redirect", at, "--email=false")
	mustOperate(t, environment, "", "oidc", "secret", "grafana")
	if code, out := operate(t, environment, "", "oidc", "secret", "grafana"); code != 1 || !strings.Contains(out, "--remove") {
		t.Errorf("a third secret: %d %s", code, out)
	}
	mustOperate(t, environment, "", "oidc", "secret", "grafana", "--remove", "1")
	if out := squeezed(mustOperate(t, environment, "", "oidc", "list")); !regexp.MustCompile(`\ngrafana grafana ES256 auto always 2:…\S{4} ` + regexp.QuoteMeta(at) + `\n$`).MatchString(out) {
		t.Errorf("the list is %s", out)
	}
	if out := mustOperate(t, environment, "", "oidc", "preview", "grafana", "otto"); !strings.Contains(out, `"preferred_username": "otto"`) || strings.Contains(out, "email") {
		t.Errorf("the preview is %s", out)
	}
	if out := mustOperate(t, environment, "", "oidc", "keys"); strings.Count(out, "active") != 2 {
		t.Errorf("the keys are %s", out)
	}
	mustOperate(t, environment, "", "oidc", "keys", "rotate")
	if out := mustOperate(t, environment, "", "oidc", "keys"); strings.Count(out, "next") != 2 {
		t.Errorf("rotated are %s", out)
	}
	if out := mustOperate(t, environment, "", "oidc", "grants", "otto"); strings.Count(out, "\n") != 1 {
		t.Errorf("grants are %s", out)
	}
	environment["PUBLIC_URL"] = "https://new.example.org"
	if out := mustOperate(t, environment, "", "oidc", "issuer"); !strings.Contains(out, "https://home.example.org/pforte") || !strings.Contains(out, "https://new.example.org/pforte") {
		t.Errorf("the issuers are %s", out)
	}
	mustOperate(t, environment, "", "oidc", "issuer", "--take")
	if out := mustOperate(t, environment, "", "oidc", "issuer"); strings.Contains(out, "home.example.org") {
		t.Errorf("the issuers are %s", out)
	}
	mustOperate(t, environment, "", "oidc", "remove", "grafana")
	if out := mustOperate(t, environment, "", "audit"); !strings.Contains(out, "oidc_client_made") || !strings.Contains(out, "oidc_issuer_changed") || strings.Contains(out, secret[1]) {
		t.Errorf("the audit is %s", out)
	}
}

// TestDataKey_LostIsSaid starts without the key that seals those of the provider, and with another one.
func TestDataKey_LostIsSaid(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("0123456789abcdef", 4)
	environment := settings(t, redistest.Start(t), "PUBLIC_URL", "https://home.example.org", "DATA_KEY", key)
	mustOperate(t, environment, "", "app", "add", "grafana", "https://grafana.example.org")
	mustOperate(t, environment, "", "oidc", "add", "grafana", "--redirect", "https://grafana.example.org/cb")
	for _, lost := range []struct{ key, says string }{
		{key, ""}, // the first start makes the keys
		{"", `"msg":"logins at applications by OpenID Connect are off","error":"DATA_KEY is not set"`},
		{strings.Repeat("5a", 32), `"msg":"a signing key cannot be opened and is replaced: was DATA_KEY lost?"`},
		{key, ""},
	} {
		environment["DATA_KEY"] = lost.key
		p := start(t, environment)
		p.exit()
		log := p.log.String()
		if !strings.Contains(log, lost.says) || strings.Contains(log, key) || lost.key != "" && strings.Contains(log, lost.key) {
			t.Errorf("with %q it logged %s", lost.key, log)
		}
	}
	if out := mustOperate(t, environment, "", "oidc", "keys"); strings.Count(out, "active") != 2 || strings.Count(out, "retired") != 2 {
		t.Errorf("the keys are %s", out)
	}
}
