package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/config"
)

func TestARedisURLNamesOneServerSentinelsOrACluster(t *testing.T) {
	for url, want := range map[string]config.Redis{
		"redis://127.0.0.1:6379":    {Addrs: []string{"127.0.0.1:6379"}},
		"redis://cache":             {Addrs: []string{"cache:6379"}},
		"redis://cache/":            {Addrs: []string{"cache:6379"}},
		"redis://:p%40ss@cache:1/3": {Addrs: []string{"cache:1"}, Password: "p@ss", DB: 3},
		"rediss://u:p@[::1]:2":      {Addrs: []string{"[::1]:2"}, Username: "u", Password: "p", TLS: true},
		"redis://[::1]":             {Addrs: []string{"[::1]:6379"}},
		"redis+sentinel://a,b:7/home?sentinel_password=s%20t&sentinel_username=w": {
			Addrs: []string{"a:26379", "b:7"}, Master: "home", SentinelUsername: "w", SentinelPassword: "s t",
		},
		"rediss+sentinel://u:p@a/my%2Fname/4": {Addrs: []string{"a:26379"}, Master: "my/name", DB: 4, Username: "u", Password: "p", TLS: true},
		"redis+cluster://:p@a:1,b,c:3":        {Addrs: []string{"a:1", "b:6379", "c:3"}, Cluster: true, Password: "p"},
		"rediss+cluster://a":                  {Addrs: []string{"a:6379"}, Cluster: true, TLS: true},
	} {
		got, err := config.ParseRedisURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
}

func TestARedisURLOfNoKnownFormIsRefusedWithoutBeingQuoted(t *testing.T) {
	for _, url := range []string{
		"", "cache:6379", "http://hunter2", "redis+://hunter2", "redis+other://hunter2", "redis://", "redis://:hunter2@", "redis://a,hunter2",
		"redis://a:port", "redis://a:0", "redis://a:65536", "redis://a/x", "redis://a/-1", "redis://a/1/2", "redis://hunter2@a", "redis://u:%zz@a",
		"redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://a,/m", "redis+sentinel://a/m/x", "redis+cluster://a/1", "redis+cluster://a,,b",
		"redis://a?sentinel_password=hunter2", "redis+sentinel://a/m?hunter2=1", "redis://a?%zz",
	} {
		_, err := config.ParseRedisURL(url)
		if err == nil {
			t.Errorf("%s was accepted", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s is quoted in %v", url, err)
		}
	}
}

func FuzzParseRedisURL(f *testing.F) {
	f.Add("redis://u:p@a:1/2")
	f.Add("redis+sentinel://a,b/m/1?sentinel_password=x")
	f.Add("rediss+cluster://[::1]:5,b")
	f.Fuzz(func(t *testing.T, url string) {
		r, err := config.ParseRedisURL(url)
		if err != nil {
			return
		}
		if len(r.Addrs) == 0 || r.Cluster && (r.DB != 0 || r.Master != "") || r.DB < 0 {
			t.Errorf("%q: got %+v", url, r)
		}
	})
}
