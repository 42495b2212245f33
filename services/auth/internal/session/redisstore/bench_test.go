package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/redistest"

	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/session/redisstore"
)

// perUser is how many sessions each user of a filled Redis has.
const perUser = 10

func filledKey(i int) string { return fmt.Sprintf("%064x", i) }

// fill puts as many sessions into Redis as sessions, as the store would.
func fill(b *testing.B, client *redis.Client, sessions int) {
	b.Helper()
	const batch = 5_000
	expires := float64(time.Now().Add(session.Lifetime).UnixMilli())
	for from := 0; from < sessions; from += batch {
		_, err := client.Pipelined(b.Context(), func(pipe redis.Pipeliner) error {
			for i := from; i < min(from+batch, sessions); i++ {
				user := "svc:{u" + strconv.Itoa(1+i/perUser) + "}:"
				pipe.HSet(b.Context(), user+"session:"+filledKey(i), "username", "anna", "role", "member",
					"csrf", strings.Repeat("c", 64), "agent", strings.Repeat("a", 110), "created", "1770000000")
				pipe.PExpire(b.Context(), user+"session:"+filledKey(i), session.Lifetime)
				pipe.ZAdd(b.Context(), user+"sessions", redis.Z{Score: expires, Member: filledKey(i)})
				pipe.PExpire(b.Context(), user+"sessions", session.Lifetime)
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStore(b *testing.B) {
	for _, sessions := range []int{1_000, 1_000_000} {
		server := redistest.New(b, "--save", "", "--appendonly", "no")
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
		fill(b, client, sessions)
		store := redisstore.New(client, "svc")
		name := func(what string) string { return fmt.Sprintf("%s/of %d sessions", what, sessions) }

		b.Run(name("load"), func(b *testing.B) {
			i := 0
			for b.Loop() {
				i = (i + 7919) % sessions
				ref := session.Ref{UserID: int64(1 + i/perUser), Key: filledKey(i)}
				if _, err := store.Load(b.Context(), ref, lasting(session.Lifetime)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name("revoke 10"), func(b *testing.B) {
			for b.Loop() {
				for i := range perUser {
					create(b, store, 1<<40, strconv.Itoa(i))
				}
				if ended, err := store.Revoke(b.Context(), 1<<40, ""); err != nil || ended != perUser {
					b.Fatal(ended, err)
				}
			}
		})
		b.Run(name("sweep"), func(b *testing.B) {
			for b.Loop() {
				if _, err := store.Sweep(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name("load during sweeps"), func(b *testing.B) {
			go func() {
				for b.Context().Err() == nil {
					_, _ = store.Sweep(b.Context())
				}
			}()
			ref := session.Ref{UserID: 1, Key: filledKey(0)}
			for b.Loop() {
				if _, err := store.Load(b.Context(), ref, lasting(session.Lifetime)); err != nil {
					b.Fatal(err)
				}
			}
		})
		memory(b, client, sessions)
		if err := client.Close(); err != nil {
			b.Fatal(err)
		}
		server.Kill()
	}
}

// memory returns the size of a session in Redis.
func memory(b *testing.B, client *redis.Client, sessions int) {
	b.Helper()
	info, err := client.Info(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	number, _, _ := strings.Cut(rest, "\r\n")
	used, err := strconv.Atoi(number)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d sessions of %d users take %d MB, %d bytes each", sessions, sessions/perUser, used>>20, used/sessions)
}
