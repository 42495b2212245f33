package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/redisstore"
)

// silence is how long a master is silent until the Sentinels of these tests call
// it away.
const silence = time.Second

func dialCluster(t testing.TB, addrs []string) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, ClusterStateReloadInterval: time.Second,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func dialSentinels(t testing.TB, w *redistest.Watched) *redis.Client {
	t.Helper()
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.Master, SentinelAddrs: w.Sentinels, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		MaxRetries: 1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// flushAll empties every node.
func flushAll(t testing.TB, client *redis.ClusterClient) {
	t.Helper()
	err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
	if err != nil {
		t.Fatal(err)
	}
}

// TestTake_LostReplyUsesUpNoCeremony: what is taken once is the caller's, also where the reply was lost.
func TestTake_LostReplyUsesUpNoCeremony(t *testing.T) {
	for name, client := range map[string]func() redis.UniversalClient{
		"alone": func() redis.UniversalClient {
			client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
			t.Cleanup(func() { _ = client.Close() })
			return client
		},
		"as Cluster": func() redis.UniversalClient { return dialCluster(t, redistest.StartCluster(t, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			client, ctx := client(), t.Context()
			client.AddHook(twice{})
			store := redisstore.New(client, "svc")
			ceremony := session.Ceremony{Purpose: "login", Data: []byte("data")}
			id, err := store.PutCeremony(ctx, ceremony)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := store.TakeCeremony(ctx, id); err != nil || cmp.Diff(ceremony, got) != "" {
				t.Errorf("ceremony: %+v, %v", got, err)
			}
			if _, err := store.TakeCeremony(ctx, id); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("the ceremony, again: %v", err)
			}
			handOver := session.HandOver{Ref: session.Ref{UserID: 42, Key: "aa"}, Host: "photos.example"}
			code, err := store.CreateHandOver(ctx, handOver)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := store.TakeHandOver(ctx, code); err != nil || cmp.Diff(handOver, got) != "" {
				t.Errorf("hand-over: %+v, %v", got, err)
			}
			if _, err := store.TakeHandOver(ctx, code); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("the hand-over, again: %v", err)
			}
		})
	}
}

func TestKeys_OfUsersAreOnAllNodes(t *testing.T) {
	t.Parallel()
	client := dialCluster(t, redistest.StartCluster(t, 3))
	store := redisstore.New(client, "svc")
	for user := range int64(60) {
		create(t, store, 1+user, "aa")
	}
	var mu sync.Mutex
	keysOf, nodes := map[int64]int{}, 0 // by slot
	err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, "*").Result()
		mu.Lock()
		defer mu.Unlock()
		if len(keys) > 0 {
			nodes++
		}
		for _, key := range keys {
			keysOf[node.ClusterKeySlot(ctx, key).Val()]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for slot, keys := range keysOf {
		if keys%3 != 0 { // session, sessions, fence
			t.Errorf("slot %d has %d keys", slot, keys)
		}
	}
	if nodes != 3 || len(keysOf) < 50 {
		t.Errorf("60 users are in %d slots on %d nodes", len(keysOf), nodes)
	}
}

// TestStore_OnSentinelsAcrossAFailover runs the suite with the same clients before
// and after the replica took over.
func TestStore_OnSentinelsAcrossAFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, silence)
	one, two := dialSentinels(t, w), dialSentinels(t, w)
	open := func(t *testing.T) backend {
		flush(t, one)
		return backend{Stores: stores(one, two)}
	}
	t.Run("before", func(t *testing.T) { testConcurrency(t, open) })
	w.Master.Kill()
	store := redisstore.New(one, "svc")
	answersAgain(t, store)
	t.Run("after", func(t *testing.T) { runBoth(t, open) })
	if _, err := w.Replica.Do("PING"); err != nil {
		t.Error(err)
	}
}

// TestStore_OnAClusterAcrossAFailover does the same on a Cluster, for users of the
// node that dies and of the others.
func TestStore_OnAClusterAcrossAFailover(t *testing.T) {
	t.Parallel()
	addrs, first := redistest.StartClusterPair(t, silence)
	client := dialCluster(t, addrs)
	store := redisstore.New(client, "svc")
	var all []session.Session
	for user := range int64(30) {
		all = append(all, create(t, store, 1+user, "aa"))
	}
	first.Replicate()
	first.Kill()
	killed := time.Now()
	for _, s := range all {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			_, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime))
			if err == nil {
				break
			}
			if errors.Is(err, session.ErrNotFound) || time.Now().After(deadline) {
				t.Fatalf("%v after the master was killed: %v", time.Since(killed), err)
			}
		}
	}
	t.Logf("all sessions answer again after %v", time.Since(killed).Round(10*time.Millisecond))
	runBoth(t, func(t *testing.T) backend {
		flushAll(t, client)
		return backend{Stores: stores(client)}
	})
}

// answersAgain waits until a store without a master has one.
func answersAgain(t *testing.T, store session.Store) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, err := store.Fence(t.Context(), 1)
		if err == nil {
			return
		}
		if errors.Is(err, session.ErrNotFound) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestFailover_WhatItLoses measures it: sessions are made as fast as one client
// can while the master is killed. What is written down of it is in the
// operations guide.
func TestFailover_WhatItLoses(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, silence)
	store := redisstore.New(dialSentinels(t, w), "svc")
	var killed time.Time
	made := map[session.Ref]time.Time{} // acknowledged sessions
	var again time.Time
	begin := time.Now()
	for i := 0; again.IsZero() || time.Since(again) < 500*time.Millisecond; i++ {
		if killed.IsZero() && time.Since(begin) > time.Second {
			killed = time.Now()
			go w.Master.Kill()
		}
		switch ref, err := makeSession(t.Context(), store, i); {
		case err == nil:
			made[ref] = time.Now()
			if again.IsZero() && !killed.IsZero() && w.TakenOver() {
				again = time.Now()
			}
		case killed.IsZero():
			t.Fatal(err)
		case time.Since(killed) > 20*time.Second:
			t.Fatalf("20 seconds after the master was killed: %v", err)
		}
	}
	lost := lostSessions(t, store, made)
	t.Logf("no session could be made for %v; of %d made before, %d are lost%s",
		again.Sub(killed).Round(10*time.Millisecond), len(made), len(lost), sinceFirst(lost, killed))
	for _, at := range lost {
		if killed.Sub(at) > time.Second {
			t.Errorf("a session of %v before the failover is lost", killed.Sub(at))
		}
	}
}

// makeSession makes the i-th of many sessions, of a new user for every 50: a user has
// 100 at most.
func makeSession(ctx context.Context, store session.Store, i int) (session.Ref, error) {
	s := made(100+int64(i/50), fmt.Sprintf("%064x", i))
	fence, err := store.Fence(ctx, s.Ref.UserID)
	if err != nil {
		return s.Ref, err
	}
	return s.Ref, store.Create(ctx, s, fence, lasting(session.Lifetime))
}

// lostSessions returns when the lost sessions were acknowledged.
func lostSessions(t *testing.T, store session.Store, made map[session.Ref]time.Time) (lost []time.Time) {
	t.Helper()
	for ref, at := range made {
		_, err := store.Load(t.Context(), ref, lasting(session.Lifetime))
		if errors.Is(err, session.ErrNotFound) {
			lost = append(lost, at)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(lost, time.Time.Compare)
	return lost
}

func sinceFirst(lost []time.Time, killed time.Time) string {
	if len(lost) == 0 {
		return ""
	}
	return fmt.Sprintf(", the first of them made %v before", killed.Sub(lost[0]).Round(time.Millisecond))
}

// TestFailover_AMasterThatIsCutOffRefusesSessions bounds what a master loses that auth
// still reaches while Sentinels and replicas do not: with these two settings it
// takes nothing more once its replica has been silent for as long.
func TestFailover_AMasterThatIsCutOffRefusesSessions(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, time.Minute)
	for _, setting := range [][2]string{{"min-replicas-to-write", "1"}, {"min-replicas-max-lag", "2"}} {
		if _, err := w.Master.Do("CONFIG", "SET", setting[0], setting[1]); err != nil {
			t.Fatal(err)
		}
	}
	store := redisstore.New(dialSentinels(t, w), "svc")
	s := create(t, store, 42, "aa")
	w.Replica.Pause()
	cut, refused := time.Now(), error(nil)
	for i := 0; refused == nil; i++ {
		if time.Since(cut) > 10*time.Second {
			t.Fatal("it takes sessions after 10 seconds")
		}
		_, refused = makeSession(t.Context(), store, i)
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("it took sessions for %v: %v", time.Since(cut).Round(100*time.Millisecond), refused)
	if errors.Is(refused, session.ErrFenced) {
		t.Errorf("a refusal is not a revocation: %v", refused)
	}
	if _, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime)); errors.Is(err, session.ErrNotFound) {
		t.Errorf("a session that is there: %v", err)
	}
	w.Replica.Resume()
	answersAgain(t, store)
}
