package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/session"
)

const secret = "0123456789abcdef0123456789abcdef"

func load(t *testing.T, environment map[string]string) (config.Config, error) {
	t.Helper()
	return config.Load(func(name string) string { return environment[name] })
}

func mustLoad(t *testing.T, environment map[string]string) config.Config {
	t.Helper()
	cfg, err := load(t, environment)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestLoad_RequiresOnlyTheSessionSecret(t *testing.T) {
	cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret})
	if cfg.Addr != ":8081" || cfg.AppName != "svc" || cfg.DatabaseURL != "sqlite:data/auth.db" || cfg.RedisURL != "redis://127.0.0.1:6379" ||
		cfg.Window() != time.Minute || cfg.RateLimitMaxAttempts != 5 || cfg.LogLevel != "info" || cfg.CompatV0 || cfg.RandomSecret {
		t.Errorf("got %+v", cfg)
	}
	if _, err := load(t, nil); err == nil || !strings.Contains(err.Error(), "SESSION_SECRET: is required") {
		t.Errorf("without it: %v", err)
	}
}

func TestLoad_ReportsAllFaultsAndNoSecret(t *testing.T) {
	_, err := load(t, map[string]string{
		"SESSION_SECRET_PREVIOUS": "hunter2", "DATABASE_URL": "mysql://hunter2", "REDIS_URL": "http://hunter2",
		"LOG_LEVEL": "loud", "APP_NAME": "a b", "TRUSTED_PROXIES": "proxy", "COMPAT_V0": "perhaps", "BOOTSTRAP_ADMIN_PASSWORD": "hunter2",
		"GUARD_TOKEN": "hunter2", "DATA_KEY": "hunter2", "DATA_KEY_PREVIOUS": "hunter2", "NOTIFY_URL": "hunter2",
	})
	if err == nil {
		t.Fatal("no fault was reported")
	}
	for _, name := range []string{
		"SESSION_SECRET", "DATABASE_URL", "REDIS_URL", "LOG_LEVEL", "APP_NAME", "TRUSTED_PROXIES", "COMPAT_V0", "BOOTSTRAP_ADMIN_USERNAME",
		"GUARD_TOKEN", "DATA_KEY", "DATA_KEY_PREVIOUS", "NOTIFY_URL",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+name+": ") {
			t.Errorf("no line for %s in\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is in\n%v", err)
	}
}

func TestLoad_AShortSecretIsAcceptedAndReported(t *testing.T) {
	for _, c := range []struct {
		secret, previous string
		weak             bool
	}{{"short", "", true}, {secret, "short", true}, {secret, "", false}, {secret, secret, false}} {
		cfg := mustLoad(t, map[string]string{"SESSION_SECRET": c.secret, "SESSION_SECRET_PREVIOUS": c.previous})
		if cfg.WeakSecret() != c.weak {
			t.Errorf("%+v: weak is %t", c, cfg.WeakSecret())
		}
	}
}

func TestLoad_SecureIsOffForExactlyFalse(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "0": true, "no": true, "False": true, "FALSE": true, "false": false} {
		cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret, "SESSION_SECURE": value})
		if cfg.Secure() != want {
			t.Errorf("SESSION_SECURE=%q: got %t", value, cfg.Secure())
		}
	}
}

func TestLoad_SecureFollowsThePublicURLUnlessItIsSet(t *testing.T) {
	for _, c := range []struct {
		set, url string
		want     bool
	}{
		{"", "", true},
		{"", "https://home.example.org", true},
		{"", "http://localhost:8080", false},
		{"", "http://192.168.1.5", false},
		{"true", "http://localhost:8080", true},
		{"no", "http://localhost:8080", true},
		{"false", "https://home.example.org", false},
	} {
		cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret, "SESSION_SECURE": c.set, "PUBLIC_URL": c.url})
		if cfg.Secure() != c.want {
			t.Errorf("SESSION_SECURE=%q with PUBLIC_URL=%q: %t", c.set, c.url, cfg.Secure())
		}
	}
}

func TestLoad_PublicURLIsAnOrigin(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, "https://home.example.org": true, "https://home.example.org:8443": true, "http://localhost:8080": true, "http://192.168.1.5": true, "https://[::1]:8443": true,
		"https://home.example.org/": false, "https://home.example.org/x": false, "https://home.example.org?x": false, "https://u@home.example.org": false,
		"home.example.org": false, "ftp://home.example.org": false, "https://Home.example.org": false, "https://müller.de": false, "https://home.example.org:": false,
		"https://": false, "https://home.example.org\n": false, "https://.": false,
	} {
		if _, err := load(t, map[string]string{"SESSION_SECRET": secret, "PUBLIC_URL": value}); (err == nil) != want {
			t.Errorf("PUBLIC_URL=%q: %v", value, err)
		}
	}
}

// At home it is made of DOMAIN, and nobody has written what is wrong with it.
func TestLoad_ShowsAPublicURLThatIsNone(t *testing.T) {
	_, err := load(t, map[string]string{"SESSION_SECRET": secret, "PUBLIC_URL": "https://https://home.example.org"})
	if err == nil || !strings.HasPrefix(err.Error(), `PUBLIC_URL: "https://https://home.example.org" is not `) {
		t.Errorf("got %v", err)
	}
}

func TestLoad_SessionLifetimeIs1HourTo400Days(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 7 * 24 * time.Hour, "1h": time.Hour, "60m": time.Hour, "2160h": 90 * 24 * time.Hour, "9600h": 400 * 24 * time.Hour} {
		if cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret, "SESSION_LIFETIME": value}); cfg.SessionLifetime != want {
			t.Errorf("%q: got %s", value, cfg.SessionLifetime)
		}
	}
	for _, bad := range []string{"59m59s", "9600h1ns", "0", "0s", "-168h", "168", "7d", "week"} {
		_, err := load(t, map[string]string{"SESSION_SECRET": secret, "SESSION_LIFETIME": bad})
		if err == nil || strings.Count("\n"+err.Error(), "\nSESSION_LIFETIME: ") != 1 {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestLoad_RememberLifetimeIsNoShorterThanThatOfSessions(t *testing.T) {
	const day = 24 * time.Hour
	for value, want := range map[[2]string]session.Lifetimes{
		{"", ""}:           {Any: 7 * day, Own: 30 * day, Shared: day / 2},
		{"1h", ""}:         {Any: time.Hour, Own: 30 * day, Shared: time.Hour},
		{"2160h", ""}:      {Any: 90 * day, Own: 90 * day, Shared: day / 2},
		{"", "168h"}:       {Any: 7 * day, Own: 7 * day, Shared: day / 2},
		{"24h", "9600h"}:   {Any: day, Own: 400 * day, Shared: day / 2},
		{"9600h", "9600h"}: {Any: 400 * day, Own: 400 * day, Shared: day / 2},
	} {
		cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret, "SESSION_LIFETIME": value[0], "REMEMBER_LIFETIME": value[1]})
		if cfg.Lifetimes() != want {
			t.Errorf("%q: got %+v", value, cfg.Lifetimes())
		}
	}
	for _, bad := range []string{"167h", "9600h1ns", "-1h", "30d"} {
		_, err := load(t, map[string]string{"SESSION_SECRET": secret, "REMEMBER_LIFETIME": bad})
		if err == nil || strings.Count("\n"+err.Error(), "\nREMEMBER_LIFETIME: ") != 1 {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestLoad_ALimitThatIsNoneMeansItsDefault(t *testing.T) {
	for _, value := range []string{"", "0", "-1", "NaN", "five", " "} {
		cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret, "RATE_LIMIT_WINDOW_MS": value, "RATE_LIMIT_MAX_ATTEMPTS": value})
		if cfg.Window() != time.Minute || cfg.RateLimitMaxAttempts != 5 {
			t.Errorf("%q: got %s, %d", value, cfg.Window(), cfg.RateLimitMaxAttempts)
		}
	}
}

func TestLoad_TheEarlierVariantMakesASecretOutsideProduction(t *testing.T) {
	first := mustLoad(t, map[string]string{"COMPAT_V0": "true"})
	second := mustLoad(t, map[string]string{"COMPAT_V0": "true", "NODE_ENV": "development"})
	if !first.RandomSecret || len(first.SessionSecret) < 32 || first.SessionSecret == second.SessionSecret {
		t.Errorf("got %q and %q", first.SessionSecret, second.SessionSecret)
	}
	for name, environment := range map[string]map[string]string{
		"in production":        {"COMPAT_V0": "true", "NODE_ENV": "production"},
		"in the later variant": {"NODE_ENV": "development"},
		"switched off":         {"COMPAT_V0": "false"},
	} {
		if _, err := load(t, environment); err == nil {
			t.Errorf("%s a missing secret was accepted", name)
		}
	}
	if cfg := mustLoad(t, map[string]string{"COMPAT_V0": "true", "SESSION_SECRET": secret}); cfg.RandomSecret || cfg.SessionSecret != secret {
		t.Errorf("a given secret was replaced: %+v", cfg)
	}
}

func TestLoad_CommandsNeedNoSessionSecret(t *testing.T) {
	stores, err := config.LoadStores(func(string) string { return "" })
	if err != nil || stores.DatabaseURL != "sqlite:data/auth.db" {
		t.Errorf("got %+v, %v", stores, err)
	}
}

func TestLoad_TrustedProxiesAreAddressesOrNetworks(t *testing.T) {
	cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret, "TRUSTED_PROXIES": "10.1.2.3, 172.16.5.0/12,::1,fd00::/8,::ffff:192.168.0.0/112"})
	want := []string{"10.1.2.3/32", "172.16.0.0/12", "::1/128", "fd00::/8", "192.168.0.0/16"}
	for i, prefix := range cfg.TrustedProxies {
		if prefix.String() != want[i] {
			t.Errorf("%d: got %s, want %s", i, prefix, want[i])
		}
	}
	for _, bad := range []string{"proxy", "10.0.0.0/33", "fe80::1%eth0", "10.0.0.1:80", ","} {
		if _, err := load(t, map[string]string{"SESSION_SECRET": secret, "TRUSTED_PROXIES": bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestLoad_ChecksTheSettingsOfNotifications(t *testing.T) {
	cfg := mustLoad(t, map[string]string{"SESSION_SECRET": secret})
	if !slices.Equal(cfg.NotifyEvents, audit.Notifiable()) {
		t.Errorf("by default, notifications of %q", cfg.NotifyEvents)
	}
	if target, err := cfg.NotifyTarget(); err != nil || target != (audit.NotifyTarget{}) {
		t.Errorf("without an address: %v, %v", target, err)
	}
	cfg = mustLoad(t, map[string]string{"SESSION_SECRET": secret, "NOTIFY_URL": "ntfy+https://ntfy.sh/household", "NOTIFY_EVENTS": "reset_asked,device_new"})
	if !slices.Equal(cfg.NotifyEvents, []string{"reset_asked", "device_new"}) {
		t.Errorf("notifications of %q", cfg.NotifyEvents)
	}
	_, err := load(t, map[string]string{"SESSION_SECRET": secret, "NOTIFY_URL": "ntfy.sh/hunter2", "NOTIFY_EVENTS": "reset_asked, login"})
	if err == nil || !strings.Contains(err.Error(), "NOTIFY_URL: is neither") || !strings.Contains(err.Error(), `NOTIFY_EVENTS: " login" is none of device_new, `) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
