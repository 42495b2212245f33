package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/test/internal/client"
)

// How many of each there are at once.
const (
	readsAtOnce  = 4
	loginsAtOnce = 1
	buyersAtOnce = 3
)

const loadPassword = "a password of eight"

// tally counts requests that succeeded, and those that failed and may be sent
// again.
type tally struct{ done, lost int }

// load is requests of users and buyers until finish.
type load struct {
	t      *testing.T
	w      *world
	tx     string // the transaction that buyers request
	admin  *browser
	enough context.CancelFunc
	all    sync.WaitGroup

	mu                                sync.Mutex
	reads, logins, changes, purchases tally
	faults                            []string
	sessions                          []*http.Client
	income                            int64 // before
}

// underLoad begins reads, logins, an administrator's changes and purchases.
func (r *replicas) underLoad(t *testing.T) *load {
	t.Helper()
	l := &load{t: t, w: r.world, tx: r.buy(t).Transaction, admin: r.world.admin(t)}
	l.admin.create("reader", loadPassword)
	l.income = r.income(t)
	ctx, enough := context.WithCancel(t.Context())
	l.enough = enough
	t.Cleanup(func() { enough(); l.all.Wait() })
	l.run(ctx, readsAtOnce, l.read)
	l.run(ctx, loginsAtOnce, l.login)
	l.run(ctx, 1, l.change)
	l.run(ctx, buyersAtOnce, l.purchase)
	return l
}

// run repeats what one client does, by n clients at once, until ctx ends. None
// stops in the middle.
func (l *load) run(ctx context.Context, n int, once func(context.Context, *http.Client, int)) {
	for client := range n {
		jar, err := cookiejar.New(nil)
		if err != nil {
			l.t.Fatal(err)
		}
		l.all.Go(func() {
			c := &http.Client{Jar: jar, Timeout: time.Minute}
			for i := client; ctx.Err() == nil; i += n {
				once(context.WithoutCancel(ctx), c, i)
			}
		})
	}
}

func (l *load) proceed(d time.Duration) { time.Sleep(d) }

// finish waits until what is under way has ended.
func (l *load) finish() {
	l.enough()
	l.all.Wait()
	l.t.Logf("reads %+v, logins %+v, changes %+v, purchases %+v", l.reads, l.logins, l.changes, l.purchases)
}

func (l *load) count(t *tally, ok bool, fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ok {
		t.done++
	} else {
		t.lost++
		l.t.Log(fault)
	}
}

// broken notes what must never happen.
func (l *load) broken(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// request sends one request; status is 0 when the connection broke.
func (l *load) request(ctx context.Context, c *http.Client, method, path, body string) (status int, v map[string]any) {
	req, err := client.NewRequest(ctx, method, l.w.PublicURL+path, body)
	if err != nil {
		l.broken("%v", err)
		return 0, nil
	}
	for _, cookie := range c.Jar.Cookies(req.URL) {
		if cookie.Name == "csrf-token" && body != "" {
			req.Header.Set("X-CSRF-Token", cookie.Value)
		}
	}
	answer := client.Do(c, req)
	if answer.Err != nil {
		l.broken("%s %s: %v", method, path, answer.Err)
	} else if err := json.Unmarshal(answer.Body, &v); err != nil {
		l.broken("%s %s: %s: %v", method, path, answer, err)
	}
	return answer.Status, v
}

// read is a request that can always be sent again.
func (l *load) read(ctx context.Context, c *http.Client, i int) {
	paths := []string{"/api/v1/auth/me", "/.well-known/receipt-signing-key.json", "/api/v1/auth/users", "/openapi.json"}
	path := paths[i%len(paths)]
	if strings.HasPrefix(path, "/api/") {
		c = &l.admin.Client
	}
	status, v := l.request(ctx, c, http.MethodGet, path, "")
	if status != http.StatusOK {
		l.broken("GET %s: %d %v", path, status, v)
	}
	l.count(&l.reads, status == http.StatusOK, path)
	time.Sleep(10 * time.Millisecond)
}

// login creates a session, which must last.
func (l *load) login(ctx context.Context, _ *http.Client, i int) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		l.broken("%v", err)
		return
	}
	c := &http.Client{Jar: jar, Timeout: time.Minute}
	status, v := l.request(ctx, c, http.MethodPost, "/api/v1/auth/login", credentials("reader", loadPassword))
	if status != http.StatusOK && status != http.StatusBadGateway {
		l.broken("login: %d %v", status, v)
	}
	l.count(&l.logins, status == http.StatusOK, fmt.Sprintf("login %d: %d", i, status))
	if status == http.StatusOK {
		l.mu.Lock()
		l.sessions = append(l.sessions, c)
		l.mu.Unlock()
	}
	time.Sleep(200 * time.Millisecond)
}

// change creates a user; without an answer it tries again, and then the user is
// there.
func (l *load) change(ctx context.Context, _ *http.Client, i int) {
	body := fmt.Sprintf(`{"username":"user-%d","display_name":"U","password":%q}`, i, loadPassword)
	status, v := l.request(ctx, &l.admin.Client, http.MethodPost, "/api/v1/auth/users", body)
	l.count(&l.changes, status == http.StatusCreated, fmt.Sprintf("change %d: %d", i, status))
	switch status {
	case http.StatusCreated:
	case http.StatusBadGateway:
		time.Sleep(100 * time.Millisecond) // the proxy has more connections that die with the replica
		if status, v = l.request(ctx, &l.admin.Client, http.MethodPost, "/api/v1/auth/users", body); status != http.StatusCreated && status != http.StatusConflict {
			l.broken("the change again: %d %v", status, v)
		}
	default:
		l.broken("change: %d %v", status, v)
	}
	time.Sleep(200 * time.Millisecond)
}

// purchase pays for a receipt, and tries again with the same payment until it is
// there.
func (l *load) purchase(ctx context.Context, _ *http.Client, i int) {
	state := filepath.Join(l.t.TempDir(), fmt.Sprint(i))
	for try := range 5 {
		cmd := exec.CommandContext(ctx, filepath.Join(l.w.Bin, "agent"), "--json", "--url", l.w.PublicURL, "--rpc", "http://"+l.w.Chain, "--state", state, "--tx", l.tx)
		cmd.Env = l.w.AgentEnv()
		begin := time.Now()
		out, err := cmd.Output()
		var bought purchase
		if err == nil {
			if err = json.Unmarshal(out, &bought); err != nil || !bought.Verified {
				l.broken("purchase %d: %v: %s", i, err, out)
			}
			l.count(&l.purchases, true, "")
			if took := time.Since(begin); try > 0 || took > 5*time.Second {
				l.t.Logf("purchase %d: try %d took %v, resumed %v", i, try+1, took.Round(time.Millisecond), bought.Payment.Resumed)
			}
			return
		}
		l.count(&l.purchases, false, fmt.Sprintf("purchase %d: after %v: %v: %s", i, time.Since(begin).Round(time.Millisecond), err, out))
	}
	l.broken("purchase %d: no receipt", i)
}

// checkReads fails for everything that must never happen.
func (l *load) checkReads() {
	l.t.Helper()
	for _, fault := range l.faults {
		l.t.Error(fault)
	}
	if l.reads.done < 100 || l.logins.done < 5 || l.changes.done < 5 || l.purchases.done < 5 {
		l.t.Errorf("too little happened: reads %+v, logins %+v, changes %+v, purchases %+v", l.reads, l.logins, l.changes, l.purchases)
	}
}

// checkSessions uses every session that was made.
func (l *load) checkSessions() {
	l.t.Helper()
	for i, c := range l.sessions {
		if status, v := l.request(l.t.Context(), c, http.MethodGet, "/api/v1/auth/me", ""); status != http.StatusOK {
			l.t.Errorf("session %d: %d %v", i, status, v)
		}
	}
}

// checkPayments compares the receipts with the money.
func (l *load) checkPayments() {
	l.t.Helper()
	if moved := l.w.income(l.t) - l.income; moved != int64(l.purchases.done)*price {
		l.t.Errorf("%d receipts, and %d moved", l.purchases.done, moved)
	}
}
