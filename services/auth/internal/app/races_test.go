package app_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

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

// race runs a test on real Redis and each database, with room for a storm of
// logins.
func race(t *testing.T, test func(t *testing.T, p *program, admin *browser)) {
	t.Helper()
	redis := redistest.Start(t)
	for name, url := range sqldbtest.URLs(t) {
		t.Run(name, func(t *testing.T) {
			environment := settings(t, redis, "DATABASE_URL", url, "APP_NAME", name, "RATE_LIMIT_MAX_ATTEMPTS", "1000000", "LOG_LEVEL", "warn")
			p := startWith(t, environment, password.Options{Cost: 4, Concurrency: 4, Queue: 10000})
			p.patient = true
			test(t, p, p.loggedIn(adminName, adminPass))
		})
	}
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

// users creates n users with the old password, and returns their names and ids.
func (b *browser) users(n int, role string) (names []string, ids []string) {
	b.p.t.Helper()
	names, ids = make([]string, n), make([]string, n)
	atOnce(n, func(i int) {
		names[i] = fmt.Sprintf("%s-%d", role, i)
		body := fmt.Sprintf(`{"username":%q,"display_name":"x","password":%q,"role":%q}`, names[i], oldPass, role)
		status, answer := b.ask(http.MethodPost, prefix+"/users", body)
		if status != http.StatusCreated {
			b.p.t.Errorf("create %s: %d %s", names[i], status, answer)
		}
		_, rest, _ := strings.Cut(answer, `"id":`)
		ids[i], _, _ = strings.Cut(rest, ",")
	})
	return names, ids
}

// allLoggedIn gives n browsers that are logged in under the names.
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

// usable tells whether any route accepts the browser's session.
func (b *browser) usable() bool {
	for _, path := range []string{"/me", "/users"} {
		if status, _ := b.ask(http.MethodGet, prefix+path, ""); status != http.StatusUnauthorized {
			return true
		}
	}
	status, _ := b.ask(http.MethodGet, "/internal/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
	return status != http.StatusUnauthorized
}

func (b *browser) change(current, replacement string) int {
	status, _ := b.ask(http.MethodPatch, prefix+"/me/password", fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, current, replacement))
	return status
}

func TestNoLoginSurvivesADeletionUnderWay(t *testing.T) {
	race(t, func(t *testing.T, p *program, admin *browser) {
		names, ids := admin.users(many, "admin")
		browsers := make([]*browser, many)
		atOnce(2*many, func(i int) {
			if i%2 == 0 {
				if status, body := admin.ask(http.MethodDelete, prefix+"/users/"+ids[i/2], ""); status != http.StatusOK {
					t.Errorf("delete: %d %s", status, body)
				}
				return
			}
			browsers[i/2] = p.browser()
			if status, body := browsers[i/2].login(names[i/2], oldPass); status != http.StatusOK && status != http.StatusUnauthorized {
				t.Errorf("login: %d %s", status, body)
			}
		})
		for i, b := range browsers {
			if b.usable() {
				t.Errorf("%s is deleted and still logged in", names[i])
			}
		}
	})
}

func TestNoLoginWithTheOldPasswordSurvivesItsChange(t *testing.T) {
	race(t, func(t *testing.T, p *program, admin *browser) {
		names, _ := admin.users(many, "member")
		changing, browsers := p.allLoggedIn(many, func(i int) string { return names[i] }), make([]*browser, many)
		atOnce(2*many, func(i int) {
			if i%2 == 0 {
				if status := changing[i/2].change(oldPass, newPass); status != http.StatusOK {
					t.Errorf("change: %d", status)
				}
				return
			}
			browsers[i/2] = p.browser()
			if status, body := browsers[i/2].login(names[i/2], oldPass); status != http.StatusOK && status != http.StatusUnauthorized {
				t.Errorf("login: %d %s", status, body)
			}
		})
		for i := range many {
			if browsers[i].usable() {
				t.Errorf("%s changed the password, and the old one is still logged in", names[i])
			}
			if !changing[i].usable() {
				t.Errorf("%s changed the password and lost the session", names[i])
			}
		}
	})
}

func TestOfTwoPasswordChangesAtOnceOneSucceeds(t *testing.T) {
	race(t, func(t *testing.T, p *program, admin *browser) {
		names, _ := admin.users(many/2, "member")
		browsers := p.allLoggedIn(many, func(i int) string { return names[i/2] })
		statuses := make([]int, many)
		atOnce(many, func(i int) { statuses[i] = browsers[i].change(oldPass, newPass+strconv.Itoa(i)) })
		for i := 0; i < many; i += 2 {
			winner, loser := i, i+1
			if statuses[loser] == http.StatusOK {
				winner, loser = loser, winner
			}
			if statuses[winner] != http.StatusOK || statuses[loser] != http.StatusUnauthorized {
				t.Fatalf("%s: got %d and %d", names[i/2], statuses[i], statuses[i+1])
			}
			if !browsers[winner].usable() || browsers[loser].usable() {
				t.Errorf("%s: the winner's session lives: %t, the loser's: %t", names[i/2], browsers[winner].usable(), browsers[loser].usable())
			}
			if status, _ := p.browser().login(names[i/2], newPass+strconv.Itoa(winner)); status != http.StatusOK {
				t.Errorf("%s: the winner's password gives %d", names[i/2], status)
			}
		}
	})
}

func TestOfManyPasswordChangesOfOneUserOneSucceeds(t *testing.T) {
	race(t, func(t *testing.T, p *program, admin *browser) {
		admin.users(1, "member")
		b := p.loggedIn("member-0", oldPass)
		statuses := make([]int, many)
		atOnce(many, func(i int) { statuses[i] = b.change(oldPass, newPass+strconv.Itoa(i)) })
		if got := count(statuses); got[http.StatusOK] != 1 || got[http.StatusUnauthorized] != many-1 {
			t.Errorf("got %v", got)
		}
	})
}

func TestOfTwoAdminsWhoDeleteEachOtherOneRemains(t *testing.T) {
	race(t, func(t *testing.T, p *program, admin *browser) {
		names, ids := admin.users(many, "admin")
		browsers := p.allLoggedIn(many, func(i int) string { return names[i] })
		statuses := make([]int, many)
		atOnce(many, func(i int) {
			statuses[i], _ = browsers[i].ask(http.MethodDelete, prefix+"/users/"+ids[i^1], "")
		})
		for i := 0; i < many; i += 2 {
			winner, loser := i, i+1
			if statuses[loser] == http.StatusOK {
				winner, loser = loser, winner
			}
			if statuses[winner] != http.StatusOK || statuses[loser] != http.StatusForbidden && statuses[loser] != http.StatusUnauthorized {
				t.Errorf("got %d and %d", statuses[i], statuses[i+1])
			}
			if !browsers[winner].usable() || browsers[loser].usable() {
				t.Errorf("the winner's session lives: %t, the loser's: %t", browsers[winner].usable(), browsers[loser].usable())
			}
		}
	})
}

func TestAdminsWhoAllDeleteEachOtherLeaveOne(t *testing.T) {
	race(t, func(t *testing.T, p *program, admin *browser) {
		const n = 10
		names, ids := admin.users(n, "admin")
		browsers := append(make([]*browser, 0, n+1), admin)
		for _, name := range names {
			browsers = append(browsers, p.loggedIn(name, oldPass))
		}
		ids = append([]string{"1"}, ids...)
		atOnce(many*2, func(i int) {
			by, whom := i%(n+1), (i/(n+1)+i+1)%(n+1)
			if by != whom {
				_, _ = browsers[by].ask(http.MethodDelete, prefix+"/users/"+ids[whom], "")
			}
		})
		left := 0
		for _, b := range browsers {
			if b.usable() {
				left++
				b.want(http.StatusOK, http.MethodGet, prefix+"/users", "")
			}
		}
		if left == 0 {
			t.Error("nobody is left to administer")
		}
	})
}

func TestOfManyCreationsOfOneUsernameOneSucceeds(t *testing.T) {
	race(t, func(t *testing.T, _ *program, admin *browser) {
		statuses := make([]int, many)
		atOnce(many, func(i int) {
			name := "twin"
			if i%2 == 1 {
				name = "TWIN"
			}
			statuses[i], _ = admin.ask(http.MethodPost, prefix+"/users", fmt.Sprintf(`{"username":%q,"display_name":"x","password":%q}`, name, oldPass))
		})
		if got := count(statuses); got[http.StatusCreated] != 1 || got[http.StatusConflict] != many-1 {
			t.Errorf("got %v", got)
		}
	})
}

func TestNoRequestUnderWayBringsALoggedOutSessionBack(t *testing.T) {
	race(t, func(t *testing.T, p *program, admin *browser) {
		names, _ := admin.users(many, "member")
		browsers := p.allLoggedIn(many, func(i int) string { return names[i] })
		thieves := make([]*browser, many)
		for i, b := range browsers {
			thieves[i] = b.twin()
		}
		atOnce(3*many, func(i int) {
			switch b, thief := browsers[i/3], thieves[i/3]; i % 3 {
			case 0:
				if status, body := b.ask(http.MethodPost, prefix+"/logout", ""); status != http.StatusOK {
					t.Errorf("logout: %d %s", status, body)
				}
			case 1:
				if status, body := thief.ask(http.MethodGet, prefix+"/me", ""); status != http.StatusOK && status != http.StatusUnauthorized {
					t.Errorf("me: %d %s", status, body)
				}
			default:
				_, _ = thief.ask(http.MethodGet, "/internal/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
			}
		})
		for i := range browsers {
			if thieves[i].usable() {
				t.Errorf("%s has logged out and is still logged in", names[i])
			}
		}
	})
}

func TestABurstOfWrongLoginsGetsExactlyTheLimit(t *testing.T) {
	p := start(t, settings(t, redistest.Start(t)))
	statuses := make([]int, many)
	atOnce(many, func(i int) { statuses[i], _ = p.browser().login(adminName, "wrong") })
	if got := count(statuses); got[http.StatusUnauthorized] != 5 || got[http.StatusTooManyRequests] != many-5 {
		t.Errorf("got %v", got)
	}
}
