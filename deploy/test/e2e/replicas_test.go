package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// replicas is a stack with two of each service behind its proxy, which share a
// Redis and a Postgres.
type replicas struct {
	*world
	// programs by name: auth, auth-2, verifier, verifier-2.
	each map[string]stack.Program
}

// newReplicas starts services with a SHUTDOWN_DELAY.
func newReplicas(t *testing.T, delay time.Duration) *replicas {
	t.Helper()
	users, ledger := sqldbtest.Postgres(t), sqldbtest.Postgres(t)
	if users == "" {
		t.Skip("Postgres is not installed")
	}
	second := layout.Addresses{Auth: freeAddr(t), AuthAdmin: freeAddr(t), Verifier: freeAddr(t), VerifierAdmin: freeAddr(t)}
	w := newWorld(t, options{change: func(l *layout.Layout) {
		l.Extra["auth"] = map[string]string{"DATABASE_URL": users, "SHUTDOWN_DELAY": delay.String()}
		l.Extra["verifier"] = map[string]string{"DATABASE_URL": ledger, "SHUTDOWN_DELAY": delay.String(), "REPEAT_WINDOW": "0"}
		l.Extra["pforte-proxy"] = map[string]string{
			"AUTH_UPSTREAM":     l.Addresses.Auth + " " + second.Auth,
			"VERIFIER_UPSTREAM": l.Addresses.Verifier + "," + second.Verifier,
		}
	}})
	other := w.Layout
	other.Addresses.Auth, other.AuthAdmin = second.Auth, second.AuthAdmin
	other.Addresses.Verifier, other.VerifierAdmin = second.Verifier, second.VerifierAdmin
	r := &replicas{world: w, each: map[string]stack.Program{"auth": w.Auth(), "verifier": w.Verifier()}}
	for _, program := range []stack.Program{other.Auth(), other.Verifier()} {
		program.Name += "-2"
		r.each[program.Name] = program
		w.restart(t, program)
	}
	return r
}

// TestReplicas_KillLosesOnlyWhatCannotBeSentAgain kills one of each service
// without warning, twice, under load.
func TestReplicas_KillLosesOnlyWhatCannotBeSentAgain(t *testing.T) {
	r := newReplicas(t, 0)
	l := r.underLoad(t)
	for _, suffix := range []string{"", "-2"} {
		l.proceed(2 * time.Second)
		r.Programs.Kill("auth" + suffix)
		r.Programs.Kill("verifier" + suffix)
		l.proceed(5 * time.Second)
		r.restart(t, r.each["auth"+suffix])
		r.restart(t, r.each["verifier"+suffix])
	}
	l.proceed(3 * time.Second)
	l.finish()
	l.checkReads()
	l.checkSessions()
	l.checkPayments()
	if l.logins.lost+l.changes.lost > 4*(loginsAtOnce+1) {
		t.Errorf("%d logins and %d changes were lost to 2 crashes of auth", l.logins.lost, l.changes.lost)
	}
}

// TestReplicas_RollingRestartLosesNothing stops and starts one replica after the other.
func TestReplicas_RollingRestartLosesNothing(t *testing.T) {
	r := newReplicas(t, 3*time.Second)
	l := r.underLoad(t)
	l.proceed(time.Second)
	for _, name := range []string{"auth", "verifier", "auth-2", "verifier-2"} {
		begin := time.Now()
		r.Programs.End(t.Context(), name, time.Minute)
		t.Logf("%s stopped in %v", name, time.Since(begin).Round(time.Millisecond))
		r.restart(t, r.each[name])
		l.proceed(3 * time.Second) // the proxy has checked its health
	}
	l.finish()
	l.checkReads()
	l.checkSessions()
	l.checkPayments()
	if l.logins.lost+l.changes.lost+l.purchases.lost != 0 {
		t.Errorf("lost %d logins, %d changes; %d purchases had to be tried again", l.logins.lost, l.changes.lost, l.purchases.lost)
	}
}

// TestReplicas_NeedNoStickySession has one browser's requests reach both replicas.
func TestReplicas_NeedNoStickySession(t *testing.T) {
	r := newReplicas(t, 0)
	b, user := r.member(t, "otto")
	for range 6 {
		if got := b.me(200); got != user {
			t.Errorf("me is %+v", got)
		}
	}
	for _, name := range []string{"auth", "auth-2"} {
		r.Programs.Kill(name)
		eventually(t, "the other replica answers", func(context.Context) error {
			if got := b.request("GET", "/api/v1/auth/me", ""); got.StatusCode != 200 {
				return fmt.Errorf("%d %s", got.StatusCode, got.body)
			}
			return nil
		})
		r.restart(t, r.each[name])
		eventually(t, "the proxy knows that it is back", func(context.Context) error {
			return stack.Healthy("http://" + r.Addresses.Proxy + "/health")(t.Context())
		})
		time.Sleep(3 * time.Second)
	}
	if _, err := os.Stat(r.Path("auth.db")); err == nil {
		t.Error("users were in a file beside Postgres")
	}
}
