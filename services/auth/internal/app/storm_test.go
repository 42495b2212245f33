package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/password"
)

// many is how often each race is run, all at once.
const many = 100

const (
	oldPass = "the old password"
	newPass = "the new password"
)

// eachDatabase runs a test on real Redis and each database, with slots for a
// storm of logins.
func eachDatabase(t *testing.T, test func(t *testing.T, p *program)) {
	t.Helper()
	redis := redistest.Start(t)
	for name, url := range sqldbtest.URLs(t) {
		t.Run(name, func(t *testing.T) {
			if name == "sqlite" {
				url = inMemory(t, url)
			}
			environment := settings(t, redis, "DATABASE_URL", url, "APP_NAME", name, "RATE_LIMIT_MAX_ATTEMPTS", "1000000", "LOG_LEVEL", "warn")
			p := startWith(t, environment, password.Options{Cost: 4, Concurrency: 4, Queue: 10000})
			p.patient = true
			test(t, p)
		})
	}
}

// within is the program as the i-th of several tests uses it, which gets 1000
// ids for its users.
func (p *program) within(t *testing.T, i int) *program {
	here := *p
	here.t, here.firstUser = t, 1000*(i+1)
	return &here
}

// inMemory moves a SQLite file to memory where the machine offers that: a storm
// of commits, each of which waits for the disk, would measure the disk.
func inMemory(t *testing.T, url string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pforte-test-")
	if err != nil {
		return url
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return "sqlite:" + filepath.Join(dir, "test.db")
}

// atOnce runs f for 0 to n-1, all at once.
func atOnce(n int, f func(i int)) {
	var wait sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wait.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	wait.Wait()
}

// users brings in n users with the old password, hashed once for all, and
// returns their names and ids.
func (b *browser) users(n int, role string) (names []string, ids []string) {
	b.p.t.Helper()
	hash := oldHash(b.p.t, "$2a$", oldPass)
	file := "id,username,display_name,password_hash,role\n"
	for i := range n {
		id := b.p.firstUser + i
		names, ids = append(names, fmt.Sprintf("%s-%d", role, id)), append(ids, strconv.Itoa(id))
		file += fmt.Sprintf("%d,%s,x,%s,%s\n", id, names[i], hash, role)
	}
	mustOperate(b.p.t, b.p.environment, file, "user", "import", "--from", "-", "--apply")
	return names, ids
}

// allLoggedIn returns n browsers that are logged in under the names.
func (p *program) allLoggedIn(n int, name func(int) string) []*browser {
	p.t.Helper()
	browsers := make([]*browser, n)
	atOnce(n, func(i int) {
		browsers[i] = p.browser()
		if status, body := browsers[i].login(name(i), oldPass); status != http.StatusOK {
			p.t.Errorf("login of %s: %d %s", name(i), status, body)
		}
	})
	if p.t.Failed() {
		p.t.FailNow()
	}
	return browsers
}

// usable reports whether any route accepts the browser's session.
func (b *browser) usable() bool {
	for _, path := range []string{"/me", "/users"} {
		if status, _ := b.request(http.MethodGet, prefix+path, ""); status != http.StatusUnauthorized {
			return true
		}
	}
	status, _ := b.request(http.MethodGet, "/internal/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
	return status != http.StatusUnauthorized
}

// steadily requests until the answer is not 500, which comes from a machine too
// busy for the service's bounds: Redis has 2 seconds for a command.
func (b *browser) steadily(method, path, body string) (status int, answer string) {
	status, answer, _ = b.repeatedly(method, path, body)
	return status, answer
}

// repeatedly is steadily, and reports whether it had to send it again. Then the
// change may have been done the first time.
func (b *browser) repeatedly(method, path, body string) (status int, answer string, again bool) {
	for range 50 {
		if status, answer = b.request(method, path, body); status != http.StatusInternalServerError {
			break
		}
		again = true
		time.Sleep(200 * time.Millisecond)
	}
	return status, answer, again
}

// unknown stands for a status: the change was made or refused, but on a machine
// too busy to report which.
const unknown = 0

// change changes the password and returns the status.
func (b *browser) change(current, replacement string) int {
	status, _, again := b.repeatedly(http.MethodPatch, prefix+"/me/password", fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, current, replacement))
	if again && status == http.StatusUnauthorized {
		return unknown
	}
	return status
}

// logout logs out. 401 after a failure means that it was done.
func (b *browser) logout() {
	b.p.t.Helper()
	if status, body, again := b.repeatedly(http.MethodPost, prefix+"/logout", ""); status != http.StatusOK && (!again || status != http.StatusUnauthorized) {
		b.p.t.Errorf("logout: %d %s", status, body)
	}
}

// delete deletes a user. 404 means that it was done, but could not be answered.
func (b *browser) delete(id string) {
	b.p.t.Helper()
	if status, body := b.steadily(http.MethodDelete, prefix+"/users/"+id, ""); status != http.StatusOK && status != http.StatusNotFound {
		b.p.t.Errorf("delete: %d %s", status, body)
	}
}
