package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

func TestItRunsOnARedisCluster(t *testing.T) {
	t.Parallel()
	node := redistest.New(t, "--cluster-enabled", "yes", "--save", "").Addr()
	client := redis.NewClient(&redis.Options{Addr: node})
	defer func() { _ = client.Close() }()
	if err := client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is up", 10*time.Second, func() bool {
		return strings.Contains(client.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	journey(t, start(t, settings(t, node, "REDIS_URL", "redis+cluster://"+node)))
}

func TestItRunsOnSentinelsAndSurvivesAFailover(t *testing.T) {
	t.Parallel()
	master := redistest.New(t, "--save", "")
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.New(t, "--save", "", "--replicaof", host, port)
	sentinel := startSentinel(t, host, port)
	p := start(t, settings(t, "", "REDIS_URL", "redis+sentinel://"+sentinel+"/home"))
	journey(t, p)
	b := p.loggedIn(adminName, adminPass)
	eventually(t, "the replica has the session", 10*time.Second, func() bool { return keys(replica.Addr()) == keys(master.Addr()) })
	master.Kill()
	eventually(t, "the replica has taken over", 60*time.Second, func() bool {
		status, body := b.ask(http.MethodGet, prefix+"/me", "")
		if status != http.StatusOK && status != http.StatusInternalServerError {
			t.Fatalf("during the failover: %d %s", status, body)
		}
		return status == http.StatusOK
	})
	p.loggedIn(adminName, adminPass)
}

// keys is the number of keys of a server.
func keys(addr string) int64 {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	return client.DBSize(context.Background()).Val()
}

// startSentinel starts a Sentinel that watches one master, "home", and knows of
// its replica.
func startSentinel(t *testing.T, host, port string) string {
	t.Helper()
	addr := freeAddr(t)
	_, own, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	config := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor home %s %s 1\nsentinel down-after-milliseconds home 1000\nsentinel failover-timeout home 5000\n",
		own, filepath.Dir(file), host, port)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", file, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	client := redis.NewSentinelClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, "the Sentinel knows the replica", 30*time.Second, func() bool {
		replicas, err := client.Replicas(context.Background(), "home").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave"
	})
	return addr
}

// TestARestartOfRedisUnderLoadLogsNobodyOut restarts a Redis that keeps its data
// while requests come in.
func TestARestartOfRedisUnderLoadLogsNobodyOut(t *testing.T) {
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
				switch status, body := b.ask(http.MethodGet, prefix+"/me", ""); status {
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
