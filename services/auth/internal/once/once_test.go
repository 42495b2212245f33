package once_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/services/auth/internal/once"
	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// onBoth runs a test on miniredis, whose clock advance moves, and on Redis, where it is nil.
func onBoth(t *testing.T, test func(t *testing.T, s *once.Store, client *redis.Client, advance func(time.Duration))) {
	open := func(t *testing.T, addr string, advance func(time.Duration)) {
		client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 128})
		t.Cleanup(func() { _ = client.Close() })
		s, err := once.New(once.Options{Client: client, App: "svc"})
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, client, advance)
	}
	t.Run("miniredis", func(t *testing.T) {
		server := miniredis.RunT(t)
		open(t, server.Addr(), server.FastForward)
	})
	t.Run("redis", func(t *testing.T) { open(t, redistest.Start(t), nil) })
}

func TestSecret_IsShownToWhoHasTheKeyUntilItIsRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, s *once.Store, client *redis.Client, _ func(time.Duration)) {
		mine, other := once.Key{1}, once.Key{2}
		name, err := s.Keep(t.Context(), mine, []byte("a secret"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			secret, left, err := s.Secret(t.Context(), mine, name)
			if err != nil || string(secret) != "a secret" || left <= once.SecretLifetime-time.Minute || left > once.SecretLifetime {
				t.Fatalf("got %q, %v, %v", secret, left, err)
			}
		}
		if err := s.Remove(t.Context(), other, name); err != nil {
			t.Fatal(err)
		}
		for of, key := range map[string]once.Key{name: other, secrets.New(): mine, "": mine, name + "0": mine} {
			if secret, _, err := s.Secret(t.Context(), key, of); !errors.Is(err, once.ErrGone) {
				t.Errorf("%q: got %q, %v", of, secret, err)
			}
		}
		for _, key := range client.Keys(t.Context(), "*").Val() {
			if held := client.Get(t.Context(), key).Val(); held == "" || cmp.Equal(held, "a secret") {
				t.Errorf("Redis holds %q", held)
			}
		}
		if _, _, err := s.Secret(t.Context(), mine, name); err != nil {
			t.Errorf("another key removed it: %v", err)
		}
		if err := s.Remove(t.Context(), mine, name); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Secret(t.Context(), mine, name); !errors.Is(err, once.ErrGone) {
			t.Errorf("after its removal: %v", err)
		}
	})
}

func TestSecret_EndsAfterFiveMinutes(t *testing.T) {
	onBoth(t, func(t *testing.T, s *once.Store, client *redis.Client, advance func(time.Duration)) {
		name, err := s.Keep(t.Context(), once.Key{1}, []byte("a secret"))
		if err != nil {
			t.Fatal(err)
		}
		if advance == nil { // its time cannot be moved
			if left := client.PTTL(t.Context(), "svc:once:"+name).Val(); left <= 0 || left > once.SecretLifetime {
				t.Errorf("is kept for %v", left)
			}
			return
		}
		advance(once.SecretLifetime - time.Second)
		if _, _, err := s.Secret(t.Context(), once.Key{1}, name); err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		if _, _, err := s.Secret(t.Context(), once.Key{1}, name); !errors.Is(err, once.ErrGone) {
			t.Errorf("got %v", err)
		}
	})
}

func form(t *testing.T, id string, sent ...string) once.Form {
	t.Helper()
	f, ok := once.NewForm(id, sent...)
	if !ok {
		t.Fatalf("%q is no id", id)
	}
	return f
}

func TestForm_SentByAHundredAtOnceIsCarriedOutOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s *once.Store, _ *redis.Client, _ func(time.Duration)) {
		f := form(t, secrets.New(), "/path", "name=Mia")
		want := once.Answer{To: "/there", Cookies: []string{"a=b"}, At: time.Unix(1e9, 0).UTC()}
		var done atomic.Int32
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				answer, first, err := s.Begin(t.Context(), f)
				if err == nil && first {
					done.Add(1)
					answer, err = want, s.Finish(t.Context(), f, want, true)
				}
				if diff := cmp.Diff(want, answer); err != nil || diff != "" {
					t.Errorf("%v, %s", err, diff)
				}
			})
		}
		wg.Wait()
		if n := done.Load(); n != 1 {
			t.Errorf("carried out %d times", n)
		}
		if answer, sent, err := s.Answer(t.Context(), f); err != nil || !sent || !cmp.Equal(answer, want) {
			t.Errorf("later: %+v, %v, %v", answer, sent, err)
		}
	})
}

func TestForm_ThatFailedIsCarriedOutAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *once.Store, _ *redis.Client, _ func(time.Duration)) {
		f := form(t, secrets.New(), "/path", "name=Mia")
		if _, first, err := s.Begin(t.Context(), f); err != nil || !first {
			t.Fatal(first, err)
		}
		second := make(chan bool)
		go func() {
			_, first, err := s.Begin(t.Context(), f)
			second <- first && err == nil
		}()
		if err := s.Abandon(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		if !<-second {
			t.Error("the form that was sent again was not carried out")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		defer cancel()
		if _, _, err := s.Begin(ctx, f); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third one did not wait: %v", err)
		}
	})
}

// lossy is a connection that breaks before a reply that has come, once it is told to, and then calls lost.
type lossy struct {
	net.Conn
	lose *atomic.Bool
	lost func()
}

func (c lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.lose.CompareAndSwap(true, false) {
		_ = c.Close()
		c.lost()
		return 0, io.EOF
	}
	return n, err
}

// losing returns a store on another client of a Redis, whose connections lose a reply.
func losing(t *testing.T, client *redis.Client, lose *atomic.Bool, lost func()) *once.Store {
	t.Helper()
	losing := redis.NewClient(&redis.Options{
		Addr: client.Options().Addr, MaxRetries: 1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return lossy{c, lose, lost}, err
		},
	})
	t.Cleanup(func() { _ = losing.Close() })
	s, err := once.New(once.Options{Client: losing, App: "svc"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Begin(t.Context(), form(t, secrets.New())); err != nil { // the script is known from here on
		t.Fatal(err)
	}
	return s
}

// TestForm_CallerWhoseReplyIsLostDoesNotWait: the client asks again where a reply is lost, and must not wait for
// itself.
func TestForm_CallerWhoseReplyIsLostDoesNotWait(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *once.Store, client *redis.Client, _ func(time.Duration)) {
		var lose atomic.Bool
		s := losing(t, client, &lose, func() {})
		lose.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, first, err := s.Begin(ctx, form(t, secrets.New())); err != nil || !first || lose.Load() {
			t.Errorf("first: %t, %v; the reply is still to be lost: %t", first, err, lose.Load())
		}
	})
}

// TestForm_OfWhoHasGoneCanBeSentAgain: a reply is lost, and the caller does not wait for another one. What it may have
// marked is forgotten, and not what another one carries out.
func TestForm_OfWhoHasGoneCanBeSentAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *once.Store, client *redis.Client, _ func(time.Duration)) {
		for _, others := range []bool{false, true} {
			f := form(t, secrets.New())
			if others {
				if _, first, err := s.Begin(t.Context(), f); err != nil || !first {
					t.Fatal(first, err)
				}
			}
			var lose atomic.Bool
			ctx, leave := context.WithCancel(t.Context())
			gone := losing(t, client, &lose, leave)
			lose.Store(true)
			if _, first, err := gone.Begin(ctx, f); !errors.Is(err, context.Canceled) || first || lose.Load() {
				t.Errorf("first: %t, %v; the reply is still to be lost: %t", first, err, lose.Load())
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, first, err := s.Begin(ctx, f)
			cancel()
			if first == others || others != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("another one carries it out: %t; sent again, first: %t, %v", others, first, err)
			}
		}
	})
}

// TestForm_OfWhomRedisDoesNotAnswerCanBeSentAgain: no try gets a reply, and the caller is told so. They may send the
// form again as soon as Redis answers.
func TestForm_OfWhomRedisDoesNotAnswerCanBeSentAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *once.Store, client *redis.Client, _ func(time.Duration)) {
		f := form(t, secrets.New())
		var lose atomic.Bool
		tries := 0
		unanswered := losing(t, client, &lose, func() {
			tries++
			lose.Store(tries < 2)
		})
		lose.Store(true)
		if _, first, err := unanswered.Begin(t.Context(), f); err == nil || first || tries != 2 {
			t.Errorf("first: %t, %v after %d tries", first, err, tries)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, first, err := s.Begin(ctx, f); err != nil || !first {
			t.Errorf("sent again, first: %t, %v", first, err)
		}
	})
}

func TestForm_WithOtherFieldsIsAnotherForm(t *testing.T) {
	onBoth(t, func(t *testing.T, s *once.Store, client *redis.Client, _ func(time.Duration)) {
		id := secrets.New()
		for _, f := range []once.Form{
			form(t, id, "/path", "name=Mia"), form(t, id, "/path", "name=Paul"), form(t, id, "/path2", "name=Mia"),
			form(t, id, "/pathname=Mia"), form(t, secrets.New(), "/path", "name=Mia"),
		} {
			if _, sent, err := s.Answer(t.Context(), f); err != nil || sent {
				t.Errorf("was sent before: %v, %v", sent, err)
			}
			if _, first, err := s.Begin(t.Context(), f); err != nil || !first {
				t.Errorf("is not the first: %v", err)
			}
		}
		for _, key := range client.Keys(t.Context(), "*").Val() {
			if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > time.Minute {
				t.Errorf("%s is pending for %v", key, left)
			}
		}
	})
	for _, id := range []string{"", "short", secrets.New() + "="} {
		if _, ok := once.NewForm(id); ok {
			t.Errorf("%q is an id", id)
		}
	}
}
