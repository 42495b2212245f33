package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/services/auth/internal/newest"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/oidc/redisstore"
)

func open(t *testing.T) (oidc.ShortLived, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(time.Now())
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return redisstore.New(client, "svc"), server
}

func code(challenge string) oidc.Code {
	return oidc.Code{ClientID: "web", Grant: "g1", Challenge: challenge, Scopes: []string{"openid"}}
}

func TestCode_IsTakenOnce(t *testing.T) {
	for challenge, want := range map[string]string{"": "g1", "x": ""} {
		s, server := open(t)
		if err := s.PutCode(t.Context(), "h", code(challenge)); err != nil {
			t.Fatal(err)
		}
		var taken atomic.Int64
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				got, reused, err := s.TakeCode(t.Context(), "h")
				switch {
				case err == nil:
					taken.Add(1)
					if got.ClientID != "web" || got.Grant != "g1" {
						t.Errorf("got %+v", got)
					}
				case !errors.Is(err, oidc.ErrCodeUsed) || reused != "":
					t.Errorf("a copy at once: %q, %v", reused, err)
				}
			})
		}
		all.Wait()
		if taken.Load() != 1 {
			t.Errorf("taken %d times", taken.Load())
		}
		server.FastForward(6 * time.Second)
		var left []string // of what was taken: the grant alone, which ends by a late copy
		if want != "" {
			left = []string{"svc:oidc:used:{h}"}
		}
		if got := server.Keys(); !slices.Equal(got, left) {
			t.Errorf("challenge %q: %q are left", challenge, got)
		}
		if _, reused, err := s.TakeCode(t.Context(), "h"); reused != want || !errors.Is(err, oidc.ErrCodeUsed) {
			t.Errorf("challenge %q, a late copy: %q, %v", challenge, reused, err)
		}
		server.FastForward(10 * time.Minute)
		if _, reused, _ := s.TakeCode(t.Context(), "h"); reused != "" {
			t.Errorf("ten minutes later: %q", reused)
		}
	}
}

func TestKept_IsTakenOnce(t *testing.T) {
	s, server := open(t)
	if err := s.Keep(t.Context(), "r", oidc.Kept{Query: "a=b"}, time.Minute, false); err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			switch got, err := s.TakeKept(t.Context(), "r"); {
			case err == nil && got.Query == "a=b":
				taken.Add(1)
			case !errors.Is(err, oidc.ErrRequestGone):
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	if taken.Load() != 1 {
		t.Errorf("taken %d times", taken.Load())
	}
	server.FastForward(6 * time.Second)
	if left := server.Keys(); !slices.Equal(left, []string{"svc:newest:oidc:req:known"}) {
		t.Errorf("%q are left", left)
	}
}

// TestStore_OnRedis has what miniredis may take otherwise.
func TestStore_OnRedis(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = client.Close() })
	s := redisstore.New(client, "svc")
	if err := s.PutCode(t.Context(), "h", code("")); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.TakeCode(t.Context(), "h"); err != nil || got.Scopes[0] != "openid" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, reused, err := s.TakeCode(t.Context(), "h"); reused != "" || !errors.Is(err, oidc.ErrCodeUsed) {
		t.Errorf("at once: %q, %v", reused, err)
	}
	if err := s.PutCode(t.Context(), "other", code("")); err != nil {
		t.Fatal(err)
	}
	if ttl := client.TTL(t.Context(), "svc:oidc:code:{other}").Val(); ttl <= 0 || ttl > oidc.CodeLifetime {
		t.Errorf("it lasts for %s", ttl)
	}
	if err := s.Keep(t.Context(), "r", oidc.Kept{Query: "a=b"}, time.Minute, true); err != nil {
		t.Fatal(err)
	}
	if got, err := s.TakeKept(t.Context(), "r"); err != nil || got.Query != "a=b" {
		t.Errorf("kept: %+v, %v", got, err)
	}
	if _, err := s.Kept(t.Context(), "r"); !errors.Is(err, oidc.ErrRequestGone) {
		t.Errorf("kept, again: %v", err)
	}
}

func TestShort_KeepsWhatItIsGivenAsLongAsItLasts(t *testing.T) {
	s, server := open(t)
	ctx := t.Context()
	access := oidc.Access{Grant: "g1", Scopes: []string{"openid"}, IssuedAt: 7}
	at := time.Now().UTC().Truncate(time.Second)
	for _, err := range []error{
		s.PutAccess(ctx, "a", 1, access), s.Keep(ctx, "r", oidc.Kept{Query: "a=b", At: 7}, time.Minute, true), s.Wait(ctx, 1, at), s.Wait(ctx, 1, at.Add(time.Hour)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 25 {
		if err := s.Refuse(ctx, 1, oidc.Refusal{At: at, Reason: string(rune('a' + i))}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Access(ctx, "a"); err != nil || cmp.Diff(access, got) != "" {
		t.Errorf("access is %+v, %v", got, err)
	}
	if got, err := s.Kept(ctx, "r"); err != nil || got.At != 7 {
		t.Errorf("kept is %+v, %v", got, err)
	}
	if got, err := s.Waiting(ctx, 1); err != nil || !got.Equal(at) {
		t.Errorf("waiting since %v, %v", got, err)
	}
	if got, err := s.Refusals(ctx, 1); err != nil || len(got) != 20 || got[0].Reason != "y" {
		t.Errorf("refusals are %+v, %v", got, err)
	}
	if err := errors.Join(s.Asked(ctx, 1), s.DropAccess(ctx, "a")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Waiting(ctx, 1); err != nil || !got.IsZero() {
		t.Errorf("waiting since %v, %v", got, err)
	}
	if _, err := s.Access(ctx, "a"); !errors.Is(err, oidc.ErrNoAccess) {
		t.Errorf("a dropped one: %v", err)
	}
	server.FastForward(time.Minute)
	if _, err := s.Kept(ctx, "r"); !errors.Is(err, oidc.ErrRequestGone) {
		t.Errorf("kept for too long: %v", err)
	}
}

// TestDevice_OnRedis has one device through all its states.
func TestDevice_OnRedis(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = client.Close() })
	s, ctx, now := redisstore.New(client, "svc"), t.Context(), time.Now()
	d := oidc.Device{ClientID: "tv", Secret: "s"}
	if free, err := s.PutDevice(ctx, "h", d, true); !free || err != nil {
		t.Fatalf("%v, %v", free, err)
	}
	if free, err := s.PutDevice(ctx, "h", d, true); free || err != nil {
		t.Errorf("a taken code: %v, %v", free, err)
	}
	poll := func(secret, client string, want error) {
		t.Helper()
		if _, err := s.PollDevice(ctx, "h", secret, client, now); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	poll("x", "tv", oidc.ErrNoDevice)
	poll("s", "other", oidc.ErrCodeClient)
	poll("s", "tv", oidc.ErrPending)
	poll("s", "tv", oidc.ErrSlowDown)
	if err := errors.Join(s.ProveDevice(ctx, "h", "l1"), s.ProveDevice(ctx, "h", "l2")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Device(ctx, "h"); err != nil || got.ProvedBy != "l2" {
		t.Errorf("got %+v, %v", got, err)
	}
	given := code("")
	if err := s.AnswerDevice(ctx, "h", &given); err != nil {
		t.Fatal(err)
	}
	if err := s.AnswerDevice(ctx, "h", nil); !errors.Is(err, oidc.ErrNoDevice) {
		t.Errorf("a second answer: %v", err)
	}
	if _, err := s.Device(ctx, "h"); !errors.Is(err, oidc.ErrNoDevice) {
		t.Errorf("an answered one: %v", err)
	}
	for _, hash := range []string{"h", "none"} {
		if err := s.ProveDevice(ctx, hash, "l1"); !errors.Is(err, oidc.ErrNoDevice) {
			t.Errorf("a proof for %s: %v", hash, err)
		}
	}
	if got, err := s.PollDevice(ctx, "h", "s", "tv", now); err != nil || cmp.Diff(given, got) != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	poll("s", "tv", oidc.ErrNoDevice)
	if err := s.GiveDeviceBack(ctx, "h", given); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PollDevice(ctx, "h", "s", "tv", now); err != nil {
		t.Errorf("given back: %v", err)
	}
	if ttl := client.TTL(ctx, "svc:oidc:device:h").Val(); ttl <= 0 || ttl > oidc.DeviceLifetime {
		t.Errorf("it lasts for %s", ttl)
	}
	if err := s.AnswerDevice(ctx, "none", nil); !errors.Is(err, oidc.ErrNoDevice) {
		t.Errorf("an unknown one: %v", err)
	}
}

// lossy is a connection that breaks before a reply that has come, as often as left says.
type lossy struct {
	net.Conn
	left *atomic.Int64
}

func (c lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.left.Load() > 0 {
		c.left.Add(-1)
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// losing returns how a client dials whose connections lose replies.
func losing(left *atomic.Int64) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return lossy{c, left}, err
	}
}

// TestTake_LostReplyUsesNothingUp: the client sends a command again whose reply is lost, and is answered as it was.
func TestTake_LostReplyUsesNothingUp(t *testing.T) {
	for name, addrs := range map[string]func() []string{
		"alone":      func() []string { return []string{redistest.Start(t)} },
		"as Cluster": func() []string { return redistest.StartCluster(t, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			left := &atomic.Int64{}
			client := redis.NewUniversalClient(&redis.UniversalOptions{
				Addrs: addrs(), MaxRetries: 1, Dialer: losing(left), IsClusterMode: name != "alone",
			})
			t.Cleanup(func() { _ = client.Close() })
			s, ctx := redisstore.New(client, "svc"), t.Context()
			lost := func(what string) {
				t.Helper()
				if left.Load() != 0 {
					t.Errorf("%s: no reply was lost", what)
				}
			}
			if _, _, err := s.TakeCode(ctx, "h"); !errors.Is(err, oidc.ErrCodeUsed) { // the scripts are known from here on
				t.Fatal(err)
			}
			if _, err := s.TakeKept(ctx, "r"); !errors.Is(err, oidc.ErrRequestGone) {
				t.Fatal(err)
			}

			for range 2 { // the second time, it was given back
				given := code("")
				if err := s.PutCode(ctx, "h", given); err != nil {
					t.Fatal(err)
				}
				left.Store(1)
				if got, reused, err := s.TakeCode(ctx, "h"); err != nil || reused != "" || cmp.Diff(given, got) != "" {
					t.Errorf("code: %+v, %q, %v", got, reused, err)
				}
				lost("code")
				if _, reused, err := s.TakeCode(ctx, "h"); reused != "" || !errors.Is(err, oidc.ErrCodeUsed) {
					t.Errorf("a copy of the code: %q, %v", reused, err)
				}
			}

			given := oidc.Kept{Query: "a=b"}
			if err := s.Keep(ctx, "r", given, time.Minute, true); err != nil {
				t.Fatal(err)
			}
			left.Store(1)
			if got, err := s.TakeKept(ctx, "r"); err != nil || cmp.Diff(given, got) != "" {
				t.Errorf("request: %+v, %v", got, err)
			}
			lost("request")
			if _, err := s.TakeKept(ctx, "r"); !errors.Is(err, oidc.ErrRequestGone) {
				t.Errorf("the request, again: %v", err)
			}
		})
	}
}

// TestKeep_TakesTheBytesOfTheRequest: an ampersand is one byte, not the six of HTML in JSON.
func TestKeep_TakesTheBytesOfTheRequest(t *testing.T) {
	s, server := open(t)
	given := oidc.Kept{Query: "a=b&c=d", At: 7}
	if err := s.Keep(t.Context(), "r", given, time.Minute, true); err != nil {
		t.Fatal(err)
	}
	if kept, err := server.Get("svc:oidc:req:r"); err != nil || kept != `{"Query":"a=b&c=d","At":7,"ClientID":""}` {
		t.Errorf("kept is %q, %v", kept, err)
	}
	if got, err := s.Kept(t.Context(), "r"); err != nil || cmp.Diff(given, got) != "" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestDevice_LostReplyUsesNothingUp: the client sends a command again whose reply is lost, and the device asks again where
// that one's is lost too.
func TestDevice_LostReplyUsesNothingUp(t *testing.T) {
	left := &atomic.Int64{}
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t), MaxRetries: 1, Dialer: losing(left)})
	t.Cleanup(func() { _ = client.Close() })
	s, ctx, now := redisstore.New(client, "svc"), t.Context(), time.Now()
	device := func(hash string) oidc.Code {
		t.Helper()
		if free, err := s.PutDevice(ctx, hash, oidc.Device{ClientID: "tv", Secret: "s"}, true); !free || err != nil {
			t.Fatalf("%v, %v", free, err)
		}
		return oidc.Code{ClientID: "tv", Grant: oidc.NewGrantID()}
	}
	poll := func(hash string, at time.Time) (oidc.Code, error) { return s.PollDevice(ctx, hash, "s", "tv", at) }
	if err := s.AnswerDevice(ctx, "h", nil); !errors.Is(err, oidc.ErrNoDevice) { // the scripts are known from here on
		t.Fatal(err)
	}
	if _, err := poll("h", now); !errors.Is(err, oidc.ErrNoDevice) {
		t.Fatal(err)
	}

	given := device("h")
	left.Store(1)
	if err := s.AnswerDevice(ctx, "h", &given); err != nil {
		t.Errorf("answered: %v", err)
	}
	left.Store(1)
	if got, err := poll("h", now); err != nil || cmp.Diff(given, got) != "" {
		t.Errorf("one lost reply: %+v, %v", got, err)
	}

	device("n")
	left.Store(1)
	if _, err := poll("n", now); !errors.Is(err, oidc.ErrPending) {
		t.Errorf("waiting, one lost reply: %v", err)
	}
	left.Store(1)
	if _, err := poll("n", now); !errors.Is(err, oidc.ErrSlowDown) {
		t.Errorf("too soon, one lost reply: %v", err)
	}
	if _, err := poll("n", now.Add(2*oidc.DeviceInterval)); !errors.Is(err, oidc.ErrPending) {
		t.Errorf("after the longer interval: %v", err)
	}
	left.Store(1)
	if err := s.AnswerDevice(ctx, "n", nil); err != nil {
		t.Errorf("denied: %v", err)
	}
	if err := s.AnswerDevice(ctx, "n", nil); !errors.Is(err, oidc.ErrNoDevice) {
		t.Errorf("denied again: %v", err)
	}
	if _, err := poll("n", now); !errors.Is(err, oidc.ErrDenied) {
		t.Errorf("a denied one: %v", err)
	}

	given = device("i")
	if err := s.AnswerDevice(ctx, "i", &given); err != nil {
		t.Fatal(err)
	}
	left.Store(2)
	if _, err := poll("i", now); err == nil || errors.Is(err, oidc.ErrNoDevice) {
		t.Fatalf("two lost replies: %v", err)
	}
	left.Store(0)
	if _, err := poll("i", now); !errors.Is(err, oidc.ErrNoDevice) {
		t.Errorf("a copy at once: %v", err)
	}
	if got, err := poll("i", now.Add(oidc.DeviceInterval)); err != nil || cmp.Diff(given, got) != "" {
		t.Errorf("the next question: %+v, %v", got, err)
	}
}

// TestStrangers_CannotFillRedis floods a Redis of the size that the household's has, as many networks would.
func TestStrangers_CannotFillRedis(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, "--save", "", "--appendonly", "no", "--maxmemory", "64mb", "--maxmemory-policy", "noeviction")
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	s, ctx := redisstore.New(client, "svc"), t.Context()
	keep := func(hash string, bytes int, stranger bool) {
		k := oidc.Kept{Query: strings.Repeat("x", bytes)}
		if err := s.Keep(ctx, hash, k, oidc.RequestLifetime, stranger); err != nil {
			t.Error(err)
		}
		d := oidc.Device{ClientID: "tv", Secret: "s"}
		if free, err := s.PutDevice(ctx, hash, d, stranger); !free || err != nil {
			t.Error(free, err)
		}
	}
	keep("member", oidc.MaxRequest, false)
	keep("first", oidc.MaxRequest, true)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 2000 {
				keep(fmt.Sprint(i, " ", j), newest.PlaceBytes-1, true)
				if t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	keep("last", oidc.MaxRequest, true)
	for hash, want := range map[string]error{"member": nil, "first": oidc.ErrRequestGone, "last": nil} {
		if _, err := s.Kept(ctx, hash); !errors.Is(err, want) {
			t.Errorf("the request %q: %v", hash, err)
		}
	}
	for hash, want := range map[string]error{"member": nil, "first": oidc.ErrNoDevice, "last": nil} {
		if _, err := s.Device(ctx, hash); !errors.Is(err, want) {
			t.Errorf("the device %q: %v", hash, err)
		}
	}
	if n := client.DBSize(ctx).Val(); n > 2*newest.Most+10 {
		t.Errorf("Redis has %d keys", n)
	}
	memory := client.InfoMap(ctx, "memory").Val()["Memory"]["used_memory"]
	if used, err := strconv.Atoi(memory); err != nil || used > 40<<20 {
		t.Errorf("Redis holds %s bytes, %v", memory, err)
	}
}

// TestKnown_CannotFillRedis: a client with a secret can push requests without a limit, and a user who is logged in can
// begin them from many addresses. A stranger's request stays meanwhile.
func TestKnown_CannotFillRedis(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = client.Close() })
	s, ctx := redisstore.New(client, "svc"), t.Context()
	keep := func(hash string, stranger bool) {
		if err := s.Keep(ctx, hash, oidc.Kept{Query: "x"}, oidc.RequestLifetime, stranger); err != nil {
			t.Error(err)
		}
	}
	keep("stranger", true)
	keep("first", false)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range newest.Most / 16 {
				keep(fmt.Sprint(i, " ", j), false)
			}
		})
	}
	all.Wait()
	keep("last", false)
	for hash, want := range map[string]error{"stranger": nil, "first": oidc.ErrRequestGone, "last": nil} {
		if _, err := s.Kept(ctx, hash); !errors.Is(err, want) {
			t.Errorf("the request %q: %v", hash, err)
		}
	}
	if n := client.DBSize(ctx).Val(); n != newest.Most+3 { // the stranger's, and two lists
		t.Errorf("Redis has %d keys", n)
	}
}

// TestAccess_OfOneUserCannotFillRedis: an application, or a user, can ask for tokens again and again.
func TestAccess_OfOneUserCannotFillRedis(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = client.Close() })
	s, ctx := redisstore.New(client, "svc"), t.Context()
	put := func(hash string, userID int64) {
		if err := s.PutAccess(ctx, hash, userID, oidc.Access{Grant: "g1"}); err != nil {
			t.Error(err)
		}
	}
	put("other", 1)
	put("first", 2)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range newest.Most / 16 {
				put(fmt.Sprint(i, " ", j), 2)
			}
		})
	}
	all.Wait()
	put("last", 2)
	for hash, want := range map[string]error{"other": nil, "first": oidc.ErrNoAccess, "last": nil} {
		if _, err := s.Access(ctx, hash); !errors.Is(err, want) {
			t.Errorf("%q: %v", hash, err)
		}
	}
	if n := client.DBSize(ctx).Val(); n != newest.Most+3 { // another user's, and two lists
		t.Errorf("Redis has %d keys", n)
	}
}
