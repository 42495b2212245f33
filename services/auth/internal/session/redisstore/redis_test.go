package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/redisstore"
)

func made(userID int64, key string) session.Session {
	return session.Session{
		Ref: session.Ref{UserID: userID, Key: key}, Username: "anna", Role: "member",
		CSRFToken: strings.Repeat("c", 64), UserAgent: "Firefox", CreatedAt: time.Unix(1_770_000_000, 0).UTC(),
	}
}

func create(t testing.TB, store session.Store, userID int64, key string) session.Session {
	t.Helper()
	fence, err := store.Fence(t.Context(), userID)
	if err != nil {
		t.Fatal(err)
	}
	s := made(userID, key)
	if err := store.Create(t.Context(), s, fence, lasting(session.Lifetime)); err != nil {
		t.Fatal(err)
	}
	return s
}

// commands returns how often each command was processed, those of clients only.
func commands(t testing.TB, client *redis.Client) map[string]int {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		if calls[name], err = strconv.Atoi(number); err != nil {
			t.Fatal(err)
		}
	}
	return calls
}

func TestKeys_OfAUserShareASlotAndExpire(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	create(t, store, 42, "aa")
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	if want := []string{"svc:{u42}:fence", "svc:{u42}:session:aa", "svc:{u42}:sessions"}; !slices.Equal(keys, want) {
		t.Fatalf("keys %q, want %q", keys, want)
	}
	for _, key := range keys {
		ttl := client.PTTL(t.Context(), key).Val()
		if strings.HasSuffix(key, "fence") != (ttl < time.Hour) || ttl <= 0 || ttl > session.Lifetime {
			t.Errorf("%s lives for %v", key, ttl)
		}
	}
}

func TestLoad_IsOneRoundTrip(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	s := create(t, store, 42, "aa")
	load := func() {
		if _, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime)); err != nil {
			t.Fatal(err)
		}
	}
	load() // Redis learns the script
	roundTrips := &counter{}
	client.AddHook(roundTrips)
	for range 10 {
		load()
	}
	if roundTrips.n != 10 {
		t.Errorf("%d round trips for 10 loads", roundTrips.n)
	}
}

func TestLoad_OnTheHostOfAnApplicationIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	s := create(t, store, 42, "aa")
	if err := store.OpenHost(t.Context(), s.Ref, "photos.example", "hash"); err != nil {
		t.Fatal(err)
	}
	load := func() {
		if _, err := store.LoadHost(t.Context(), s.Ref, "photos.example", "hash", lasting(session.Lifetime)); err != nil {
			t.Fatal(err)
		}
	}
	load() // Redis learns the script
	roundTrips := &counter{}
	client.AddHook(roundTrips)
	for range 10 {
		load()
	}
	if roundTrips.n != 10 {
		t.Errorf("%d round trips for 10 loads", roundTrips.n)
	}
}

func TestLoad_OfASessionThatIsGoneWritesNothing(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	create(t, store, 42, "aa")
	before := commands(t, client)
	for _, ref := range []session.Ref{{UserID: 42, Key: "bb"}, {UserID: 43, Key: "aa"}} {
		if _, err := store.Load(t.Context(), ref, lasting(session.Lifetime)); !errors.Is(err, session.ErrNotFound) {
			t.Fatal(err)
		}
	}
	after := commands(t, client)
	for _, command := range []string{"hset", "pexpire", "zadd", "zrem", "zremrangebyscore", "unlink", "del", "set"} {
		if after[command] != before[command] {
			t.Errorf("%s was called", command)
		}
	}
}

func TestLoad_ASecondWithinASecondWritesNothing(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	s := create(t, store, 42, "aa")
	load := func() {
		t.Helper()
		if _, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime)); err != nil {
			t.Fatal(err)
		}
	}
	load()
	before := commands(t, client)
	load()
	if after := commands(t, client); after["pexpire"] != before["pexpire"] || after["zadd"] != before["zadd"] {
		t.Error("a session that was just renewed is renewed again")
	}
	if err := client.PExpire(t.Context(), "svc:{u42}:session:aa", session.Lifetime-time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	load()
	if ttl := client.PTTL(t.Context(), "svc:{u42}:session:aa").Val(); ttl <= session.Lifetime-time.Second {
		t.Errorf("a session renewed a second ago lives for %v", ttl)
	}
}

func TestLoad_ASessionItsUserDoesNotListIsRefused(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	s := create(t, store, 42, "aa")
	if err := client.Del(t.Context(), "svc:{u42}:sessions").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime)); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("load: %v", err)
	}
	if _, err := store.AddCSRFToken(t.Context(), s.Ref, "token"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("add CSRF token: %v", err)
	}
}

func TestSet_LivesAsLongAsItsLastSession(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	long := create(t, store, 42, "aa")
	fence, err := store.Fence(t.Context(), 42)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context(), made(42, "bb"), fence, lasting(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if err := client.PExpire(t.Context(), "svc:{u42}:session:aa", session.Lifetime-time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(t.Context(), long.Ref, lasting(session.Lifetime)); err != nil {
		t.Errorf("load: %v", err)
	}
	if n := client.ZCard(t.Context(), "svc:{u42}:sessions").Val(); n != 1 {
		t.Errorf("%d entries are left after the short session expired and the other was used", n)
	}
}

func TestDelete_LeavesNothingOfASession(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	s := create(t, store, 42, "aa")
	if err := store.Delete(t.Context(), s.Ref); err != nil {
		t.Fatal(err)
	}
	if keys := client.Keys(t.Context(), "*").Val(); !slices.Equal(keys, []string{"svc:{u42}:fence"}) {
		t.Errorf("keys left: %q", keys)
	}
}

func TestRevoke_LeavesNothingOfAUsersSessions(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	for key := range 50 {
		create(t, store, 42, strconv.Itoa(key))
	}
	if _, err := store.Revoke(t.Context(), 42, ""); err != nil {
		t.Fatal(err)
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestKeys_AppsInOneRedisAreApart(t *testing.T) {
	t.Parallel()
	client := dial(t, redistest.Start(t))
	one, two := redisstore.New(client, "one"), redisstore.New(client, "two")
	s := create(t, one, 42, "aa")
	if _, err := two.Load(t.Context(), s.Ref, lasting(session.Lifetime)); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("load in the other app: %v", err)
	}
	if _, err := two.Revoke(t.Context(), 42, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Load(t.Context(), s.Ref, lasting(session.Lifetime)); err != nil {
		t.Errorf("load: %v", err)
	}
}

func TestRedis_DownOrHangingIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	store := redisstore.New(dial(t, server.Addr()), "svc")
	s := create(t, store, 42, "aa")
	fails := func(how string) {
		start := time.Now()
		_, load := store.Load(t.Context(), s.Ref, lasting(session.Lifetime))
		took := time.Since(start)
		_, revoke := store.Revoke(t.Context(), 1, "")
		for _, err := range []error{load, revoke} {
			if err == nil || errors.Is(err, session.ErrNotFound) {
				t.Errorf("while Redis is %s: %v", how, err)
			}
		}
		if took > 5*time.Second {
			t.Errorf("a load took %v while Redis is %s", took, how)
		}
	}
	server.Pause()
	fails("hanging")
	server.Resume()
	if _, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime)); err != nil {
		t.Errorf("load after the pause: %v", err)
	}
	server.Kill()
	fails("away")
	server.Restart()
	if _, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime)); err != nil {
		t.Errorf("load after the restart: %v", err)
	}
}

func TestRedis_ARestartWithoutDataLogsOut(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--save", "", "--appendonly", "no")
	store := redisstore.New(dial(t, server.Addr()), "svc")
	s := create(t, store, 42, "aa")
	fence, err := store.Fence(t.Context(), 42)
	if err != nil {
		t.Fatal(err)
	}
	server.Restart()
	if _, err := store.Load(t.Context(), s.Ref, lasting(session.Lifetime)); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("load: %v", err)
	}
	if err := store.Create(t.Context(), made(42, "bb"), fence, lasting(session.Lifetime)); !errors.Is(err, session.ErrFenced) {
		t.Errorf("a login from before the restart: %v", err)
	}
}

// TestRevoke_ManyEarlierSessionsEndInSteps puts 20 000 sessions into Redis as
// a version without a limit left them.
func TestRevoke_ManyEarlierSessionsEndInSteps(t *testing.T) {
	t.Parallel()
	const left = 20_000
	client := dial(t, redistest.Start(t))
	store := redisstore.New(client, "svc")
	fill := func() {
		t.Helper()
		expires := float64(time.Now().Add(time.Hour).UnixMilli())
		for from := 0; from < left; from += 1000 {
			_, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
				for i := from; i < from+1000; i++ {
					key := fmt.Sprintf("%064x", i)
					pipe.HSet(t.Context(), "svc:{u1}:session:"+key, "username", "anna", "role", "member", "created", "1770000000")
					pipe.ZAdd(t.Context(), "svc:{u1}:sessions", redis.Z{Score: expires + float64(i), Member: key})
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	ended, err := store.Revoke(t.Context(), 1, fmt.Sprintf("%064x", 5))
	if err != nil || ended != left-1 || client.DBSize(t.Context()).Val() != 2 {
		t.Errorf("%d ended, %d keys are left: %v", ended, client.DBSize(t.Context()).Val(), err)
	}
	fill()
	made := session.Session{Ref: session.Ref{UserID: 1, Key: strings.Repeat("a", 64)}, Username: "anna", CreatedAt: time.Unix(1_770_000_000, 0)}
	fence, err := store.Fence(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context(), made, fence, lasting(session.Lifetime)); err != nil {
		t.Fatal(err)
	}
	if n := client.ZCard(t.Context(), "svc:{u1}:sessions").Val(); n != left-1000+1 {
		t.Errorf("after one login %d sessions are left", n)
	}
	if ended, err := store.Revoke(t.Context(), 1, ""); err != nil || ended != left-1000+1 || client.DBSize(t.Context()).Val() != 0 {
		t.Errorf("%d ended, %d keys are left: %v", ended, client.DBSize(t.Context()).Val(), err)
	}
}
