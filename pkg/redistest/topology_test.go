package redistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestCluster_NodesShareTheSlots(t *testing.T) {
	if addrs := redistest.StartCluster(t, 3); len(addrs) != 3 || addrs[0] == addrs[1] {
		t.Errorf("addresses %s", addrs)
	}
}

func TestSentinels_LetTheReplicaTakeOver(t *testing.T) {
	w := redistest.StartWatched(t, time.Second)
	if _, err := w.Master.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	w.Master.Replicate()
	if w.TakenOver() {
		t.Error("before the master is away")
	}
	w.Master.Kill()
	for deadline := time.Now().Add(20 * time.Second); !w.TakenOver(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not after 20 seconds")
		}
	}
	if v, err := w.Replica.Do("GET", "k"); err != nil || v != "v" {
		t.Errorf("the new master has %q, %v", v, err)
	}
}

func TestSend_ARefusalIsAnError(t *testing.T) {
	s := redistest.New(t)
	if _, err := s.Do("NOSUCH"); err == nil || !strings.HasPrefix(err.Error(), "ERR") {
		t.Errorf("got %v", err)
	}
	if missing, err := s.Do("GET", "nothing"); err != nil || missing != "" {
		t.Errorf("got %q, %v", missing, err)
	}
}
