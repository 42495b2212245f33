package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const slots = 16384

// StartCluster starts a Redis Cluster of n masters that share the slots, and
// returns their addresses.
func StartCluster(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for _, node := range startCluster(t, n) {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

func newNode(t testing.TB, args ...string) *Server {
	t.Helper()
	return New(t, append(args, "--cluster-enabled", "yes", "--save", "")...)
}

func startCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	nodes := make([]*Server, n)
	for i := range nodes {
		nodes[i] = newNode(t, args...)
		first, last := i*slots/n, (i+1)*slots/n-1
		nodes[i].must("CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(first), fmt.Sprint(last))
		nodes[i].must("CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for _, node := range nodes[1:] {
		host, port := hostPort(node.Addr())
		nodes[0].must("CLUSTER", "MEET", host, port, node.bus)
	}
	for _, node := range nodes {
		eventually(t, "a node of the cluster knows the others", func() bool {
			info, err := node.Do("CLUSTER", "INFO")
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", n))
		})
	}
	return nodes
}

// StartClusterPair starts a Cluster of three masters of which the first has a
// replica that takes over when it is silent for the given time.
func StartClusterPair(t testing.TB, silent time.Duration) (addrs []string, first *Server) {
	t.Helper()
	timeout := []string{"--cluster-node-timeout", fmt.Sprint(silent.Milliseconds()), "--repl-diskless-sync-delay", "0"}
	nodes := startCluster(t, 3, timeout...)
	replica := newNode(t, timeout...)
	host, port := hostPort(replica.Addr())
	nodes[0].must("CLUSTER", "MEET", host, port, replica.bus)
	id, err := nodes[0].Do("CLUSTER", "MYID")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica follows", func() bool {
		if _, err := replica.Do("CLUSTER", "REPLICATE", id); err != nil {
			return false
		}
		info, err := replica.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	for _, node := range nodes {
		addrs = append(addrs, node.Addr())
		eventually(t, "a node knows the replica", func() bool {
			known, err := node.Do("CLUSTER", "REPLICAS", id)
			return err == nil && strings.Contains(known, ":"+port+"@")
		})
	}
	return addrs, nodes[0]
}

// Master is the name under which Sentinels know the master.
const Master = "home"

// Watched is a master and its replica, watched by Sentinels.
type Watched struct {
	Master, Replica *Server
	// Sentinels are the addresses of the Sentinels.
	Sentinels []string
	sentinels []*Server
}

// StartWatched starts a master, a replica that has its data, and three Sentinels
// of which two must agree that the master is away; for that it has to be silent
// for the given time.
func StartWatched(t testing.TB, silent time.Duration) *Watched {
	t.Helper()
	options := []string{"--save", "", "--repl-diskless-sync-delay", "0"}
	w := &Watched{Master: New(t, options...)}
	host, port := hostPort(w.Master.Addr())
	w.Replica = New(t, append(options, "--replicaof", host, port)...)
	eventually(t, "the replica follows", func() bool {
		info, err := w.Replica.Do("INFO", "replication")
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	for range 3 {
		sentinel := newSentinel(t, host, port, silent)
		w.sentinels = append(w.sentinels, sentinel)
		w.Sentinels = append(w.Sentinels, sentinel.Addr())
	}
	for _, sentinel := range w.sentinels {
		eventually(t, "a Sentinel knows the replica and the others", func() bool {
			known, err := sentinel.Do("SENTINEL", "MASTER", Master)
			return err == nil && strings.Contains(known, "\nnum-slaves\n1\n") && strings.Contains(known, "\nnum-other-sentinels\n2\n")
		})
	}
	return w
}

// TakenOver reports whether all Sentinels name the replica as the master.
func (w *Watched) TakenOver() bool {
	host, port := hostPort(w.Replica.Addr())
	for _, sentinel := range w.sentinels {
		if addr, err := sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", Master); err != nil || addr != host+"\n"+port {
			return false
		}
	}
	return true
}

// newSentinel starts a Sentinel. It writes into its configuration file, which is
// its first argument.
func newSentinel(t testing.TB, host, port string, silent time.Duration) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	config := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s %[4]d\nsentinel failover-timeout %[1]s 2000\n",
		Master, host, port, silent.Milliseconds())
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return launch(t, file, "--sentinel")
}

func hostPort(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic(err) // an address of ours
	}
	return host, port
}

func (s *Server) must(words ...string) {
	s.t.Helper()
	if _, err := s.Do(words...); err != nil {
		s.t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
}

// eventually waits for at most 20 seconds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(25 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: not after 20 seconds", what)
}
