package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// memory is what Redis held of a user's sessions at one moment. A failover, or a
// machine that lost its power, brings such a moment back.
type memory struct {
	t      *testing.T
	client *redis.Client
	values map[string]string
}

// remember saves the sessions of a user.
func (p *program) remember(t *testing.T, id string) memory {
	t.Helper()
	m := memory{t: t, client: redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(p.environment["REDIS_URL"], "redis://")}), values: map[string]string{}}
	t.Cleanup(func() { _ = m.client.Close() })
	for _, key := range m.client.Keys(t.Context(), p.environment["APP_NAME"]+":{u"+id+"}:session*").Val() {
		m.values[key] = m.client.Dump(t.Context(), key).Val()
	}
	if len(m.values) < 2 {
		t.Fatalf("Redis holds %d keys of user %s", len(m.values), id)
	}
	return m
}

// comesBack makes Redis forget everything since.
func (m memory) comesBack() {
	m.t.Helper()
	for key, value := range m.values {
		if err := m.client.RestoreReplace(m.t.Context(), key, 0, value).Err(); err != nil {
			m.t.Fatal(err)
		}
	}
}

// statuses are those of the routes that look at the session alone, each requested
// when Redis has just forgotten.
func (b *browser) statuses(m memory) map[string]int {
	got := map[string]int{}
	for name, path := range map[string]string{
		"me": prefix + "/me", "users": prefix + "/users", "member": "/internal/forward-auth", "admin": "/internal/forward-auth?role=admin",
	} {
		m.comesBack()
		got[name], _ = b.duplicate().request(http.MethodGet, path, "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
	}
	return got
}

var (
	over     = map[string]int{"me": 401, "users": 401, "member": 401, "admin": 401}
	asMember = map[string]int{"me": 200, "users": 403, "member": 200, "admin": 403}
	asAdmin  = map[string]int{"me": 200, "users": 200, "member": 200, "admin": 200}
)

func TestRevocation_HoldsWhenRedisForgetsIt(t *testing.T) {
	eachDatabase(t, func(t *testing.T, p *program) {
		for i, c := range map[int]struct {
			name   string
			revoke func(t *testing.T, p *program, admin *browser, name, id string)
			want   map[string]int
		}{
			0: {"nothing, as a check", func(*testing.T, *program, *browser, string, string) {}, asAdmin},
			1: {"a deletion", func(_ *testing.T, _ *program, admin *browser, _, id string) { admin.delete(id) }, over},
			2: {"a new password", func(t *testing.T, p *program, _ *browser, name, _ string) {
				other := p.loggedIn(name, oldPass)
				if status := other.change(oldPass, newPass); status != http.StatusOK {
					t.Fatalf("change: %d", status)
				}
			}, over},
			3: {"a password that the operator set", func(t *testing.T, p *program, _ *browser, name, _ string) {
				mustOperate(t, p.environment, newPass+"\n", "user", "passwd", name)
			}, over},
			4: {"a revocation by the operator", func(t *testing.T, p *program, _ *browser, name, _ string) {
				mustOperate(t, p.environment, "", "sessions", "revoke", name)
			}, over},
			5: {"another role", func(t *testing.T, p *program, _ *browser, name, _ string) {
				mustOperate(t, p.environment, "", "user", "role", name, "member")
			}, asMember},
			6: {"another user under the same id, as after a restored backup", func(t *testing.T, p *program, admin *browser, _, id string) {
				admin.delete(id)
				file := "id,username,display_name,password_hash,role\n" + id + ",grandma-" + id + ",x," + oldHash(t, "$2a$", oldPass) + ",admin\n"
				mustOperate(t, p.environment, file, "user", "import", "--from", "-", "--apply")
			}, over},
		} {
			t.Run(c.name, func(t *testing.T) {
				here := p.within(t, i)
				admin := here.loggedIn(adminName, adminPass)
				names, ids := admin.users(1, "admin")
				eve := here.loggedIn(names[0], oldPass)
				before := here.remember(t, ids[0])
				c.revoke(t, here, admin, names[0], ids[0])
				wantStatuses(t, eve.statuses(before), c.want)
			})
		}
	})
}

// TestSession_ThatChangedThePasswordOutlivesRedis has Redis lose that
// the other sessions ended.
func TestSession_ThatChangedThePasswordOutlivesRedis(t *testing.T) {
	eachDatabase(t, func(t *testing.T, p *program) {
		admin := p.loggedIn(adminName, adminPass)
		names, ids := admin.users(1, "admin")
		kept, other := p.loggedIn(names[0], oldPass), p.loggedIn(names[0], oldPass)
		before := p.remember(t, ids[0])
		if status := kept.change(oldPass, newPass); status != http.StatusOK {
			t.Fatalf("change: %d", status)
		}
		wantStatuses(t, kept.statuses(before), asAdmin)
		wantStatuses(t, other.statuses(before), over)
	})
}
