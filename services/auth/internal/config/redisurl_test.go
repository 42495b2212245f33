package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/config"
)

// target is what a REDIS_URL selects of the client's options.
type target struct {
	addrs                              []string
	cluster, tls                       bool
	master                             string
	username, password                 string
	sentinelUsername, sentinelPassword string
	db                                 int
}

func TestRedisURL_NamesOneServerSentinelsOrACluster(t *testing.T) {
	for url, want := range map[string]target{
		"redis://127.0.0.1:6379":    {addrs: []string{"127.0.0.1:6379"}},
		"redis://cache":             {addrs: []string{"cache:6379"}},
		"redis://cache/":            {addrs: []string{"cache:6379"}},
		"redis://:p%40ss@cache:1/3": {addrs: []string{"cache:1"}, password: "p@ss", db: 3},
		"rediss://u:p@[::1]:2":      {addrs: []string{"[::1]:2"}, username: "u", password: "p", tls: true},
		"redis://[::1]":             {addrs: []string{"[::1]:6379"}},
		"redis+sentinel://a,b:7/home?sentinel_password=s%20t&sentinel_username=w": {
			addrs: []string{"a:26379", "b:7"}, master: "home", sentinelUsername: "w", sentinelPassword: "s t",
		},
		"rediss+sentinel://u:p@a/my%2Fname/4": {addrs: []string{"a:26379"}, master: "my/name", db: 4, username: "u", password: "p", tls: true},
		"redis+cluster://:p@a:1,b,c:3":        {addrs: []string{"a:1", "b:6379", "c:3"}, cluster: true, password: "p"},
		"rediss+cluster://a":                  {addrs: []string{"a:6379"}, cluster: true, tls: true},
	} {
		o, err := config.ParseRedisURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := target{o.Addrs, o.IsClusterMode, o.TLSConfig != nil, o.MasterName, o.Username, o.Password, o.SentinelUsername, o.SentinelPassword, o.DB}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{})); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
}

func TestRedisURL_OfNoKnownFormIsRefusedNotQuoted(t *testing.T) {
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
		if len(r.Addrs) == 0 || r.IsClusterMode && (r.DB != 0 || r.MasterName != "") || r.DB < 0 {
			t.Errorf("%q: got %+v", url, r)
		}
	})
}
