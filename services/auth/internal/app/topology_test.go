package app_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"
)

// journey is what a household does, as far as it touches Redis.
func journey(t *testing.T, p *program) {
	t.Helper()
	admin := p.loggedIn(adminName, adminPass)
	admin.want(http.StatusCreated, http.MethodPost, prefix+"/users", `{"username":"otto","display_name":"Otto","password":"battery staple"}`)
	otto, phone := p.loggedIn("otto", "battery staple"), p.loggedIn("otto", "battery staple")
	otto.want(http.StatusOK, http.MethodPatch, prefix+"/me/password", `{"current_password":"battery staple","new_password":"another one"}`)
	phone.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
	otto.want(http.StatusOK, http.MethodGet, prefix+"/me", "")
	admin.want(http.StatusOK, http.MethodDelete, prefix+"/users/2", "")
	otto.want(http.StatusUnauthorized, http.MethodGet, prefix+"/me", "")
	admin.want(http.StatusOK, http.MethodPost, prefix+"/logout", "")
}

func TestTopology_RunsOnARedisCluster(t *testing.T) {
	t.Parallel()
	addrs := redistest.StartCluster(t, 3)
	journey(t, start(t, settings(t, "", "REDIS_URL", "redis+cluster://"+strings.Join(addrs, ","))))
}

func TestTopology_SurvivesAFailoverOfACluster(t *testing.T) {
	t.Parallel()
	addrs, first := redistest.StartClusterPair(t, time.Second)
	p := start(t, settings(t, "", "REDIS_URL", "redis+cluster://"+strings.Join(addrs, ",")))
	b := p.loggedIn(adminName, adminPass) // the first user's sessions are on the first node
	if n := keys(first.Addr()); n == 0 {
		t.Fatal("the session is on another node")
	}
	first.Replicate()
	first.Kill()
	answersAgain(t, p, b)
}

// answersAgain waits until the sessions and logins of a program whose Redis died
// are served again, and reports how long it took.
func answersAgain(t *testing.T, p *program, b *browser) {
	t.Helper()
	killed := time.Now()
	eventually(t, "the replica has taken over", 60*time.Second, func() bool {
		status, body := b.request(http.MethodGet, prefix+"/me", "")
		if status != http.StatusOK && status != http.StatusInternalServerError {
			t.Fatalf("during the failover: %d %s", status, body)
		}
		return status == http.StatusOK
	})
	t.Logf("sessions answer again after %v", time.Since(killed).Round(10*time.Millisecond))
	p.loggedIn(adminName, adminPass)
	t.Logf("logins answer again after %v", time.Since(killed).Round(10*time.Millisecond))
}

func TestTopology_SurvivesAFailoverOnSentinels(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, time.Second)
	p := start(t, settings(t, "", "REDIS_URL", "redis+sentinel://"+strings.Join(w.Sentinels, ",")+"/"+redistest.Master))
	journey(t, p)
	b := p.loggedIn(adminName, adminPass)
	w.Master.Replicate()
	w.Master.Kill()
	answersAgain(t, p, b)
}

// keys is the number of keys of a server.
func keys(addr string) int64 {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	return client.DBSize(context.Background()).Val()
}

// TestTopology_ARedisRestartUnderLoadEndsNoSession restarts a Redis that keeps its data
// while requests come in.
func TestTopology_ARedisRestartUnderLoadEndsNoSession(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--appendonly", "yes", "--appendfsync", "always")
	p := start(t, settings(t, server.Addr(), "LOG_LEVEL", "error"))
	b := p.loggedIn(adminName, adminPass)
	var answered, failed, other atomic.Int64
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		atOnce(8, func(int) {
			for {
				select {
				case <-over:
					return
				default:
				}
				switch status, body := b.request(http.MethodGet, prefix+"/me", ""); status {
				case http.StatusOK:
					answered.Add(1)
				case http.StatusInternalServerError:
					failed.Add(1)
				default:
					other.Add(1)
					t.Logf("%d %s", status, body)
				}
			}
		})
	}()
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		server.Restart()
	}
	before := answered.Load()
	eventually(t, "it answers again", recovery, func() bool { return answered.Load() > before+10 })
	close(over)
	<-done
	if other.Load() != 0 || answered.Load() == 0 {
		t.Errorf("answered %d, failed %d, other %d", answered.Load(), failed.Load(), other.Load())
	}
	b.want(http.StatusOK, http.MethodGet, prefix+"/me", "")
}
