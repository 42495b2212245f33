package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// many are users as another application would bring them.
func many(n int) []user.User {
	users := make([]user.User, n)
	for i := range users {
		name := fmt.Sprintf("user-%06d", i)
		users[i] = user.User{New: user.New{
			Username: name, DisplayName: "Familie " + name, AvatarColor: "#336699", Role: user.Member,
			PasswordHash: "$2a$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW",
		}}
	}
	return users
}

func BenchmarkStore(b *testing.B) {
	for backend, fresh := range map[string]func(testing.TB) string{"SQLite": sqldbtest.SQLite, "Postgres": sqldbtest.Postgres} {
		for _, n := range []int{1_000, 100_000} {
			url := fresh(b)
			if url == "" {
				b.Skip("not installed")
			}
			store := sqlstore.New(open(b, url), time.Now, nil)
			if _, err := store.Users.Import(b.Context(), many(n)); err != nil {
				b.Fatal(err)
			}
			name := func(what string) string { return fmt.Sprintf("%s/%s/of %d users", backend, what, n) }

			i := 0
			b.Run(name("by id"), func(b *testing.B) {
				for b.Loop() {
					i = (i + 7919) % n
					if _, err := store.Users.ByID(b.Context(), int64(i+1)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name("by name"), func(b *testing.B) {
				for b.Loop() {
					i = (i + 7919) % n
					if _, err := store.Users.ByUsername(b.Context(), fmt.Sprintf("user-%06d", i)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name("list and sort"), func(b *testing.B) {
				for b.Loop() {
					users, err := store.Users.List(b.Context())
					if err != nil || len(users) != n {
						b.Fatal(len(users), err)
					}
					user.Sort(users)
				}
			})
		}
	}
}

// BenchmarkGrant is what a code costs the database that becomes a grant, without the signature.
func BenchmarkGrant(b *testing.B) {
	store := sqlstore.New(open(b, sqldbtest.SQLite(b)), time.Now, nil)
	ctx := b.Context()
	anna, err := store.Users.Create(ctx, user.New{Username: "anna", DisplayName: "Anna", AvatarColor: "#336699", Role: user.Admin, PasswordHash: "x"}, session.Session{})
	if err != nil {
		b.Fatal(err)
	}
	by := sessionOf(anna, "key")
	if err := store.Applications.CreateApplication(ctx, app("grafana"), application.Icon{}, by); err != nil {
		b.Fatal(err)
	}
	if err := store.Clients.CreateClient(ctx, client("grafana"), "https://home.example.org/pforte", by); err != nil {
		b.Fatal(err)
	}
	clients, err := store.Clients.Clients(ctx)
	if err != nil {
		b.Fatal(err)
	}
	p, _, err := store.Grants.Person(ctx, anna.ID, clients[0].ApplicationID)
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		_, err := store.Grants.CreateGrant(ctx, oidc.Grant{
			ID: oidc.NewGrantID(), ApplicationID: clients[0].ApplicationID, UserID: anna.ID, Login: fmt.Sprint(n / 5), Stamp: p.User.SessionStamp,
			Scopes: []string{"openid"}, AuthTime: time.Now(), Factor: session.Password,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
