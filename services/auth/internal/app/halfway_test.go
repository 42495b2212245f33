package app_test

import (
	"encoding/base32"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/auth/internal/factor"
)

// interrupted is a program whose connections to Postgres and Redis can be lost at any
// message.
type interrupted struct {
	*program
	stores  map[string]*wire
	admin   *browser
	clients int
}

func interruptible(t *testing.T) *interrupted {
	t.Helper()
	url := sqldbtest.Postgres(t)
	if url == "" {
		t.Skip("Postgres is not installed")
	}
	before, rest, _ := strings.Cut(url, "@")
	address, database, _ := strings.Cut(rest, "/")
	postgres, redis := newWire(t, address), newWire(t, redistest.Start(t))
	p := start(t, settings(t, redis.addr(), "DATABASE_URL", before+"@"+postgres.addr()+"/"+database, "TRUSTED_PROXIES", "127.0.0.1",
		"DATA_KEY", strings.Repeat("5a", 32), "RATE_LIMIT_MAX_ATTEMPTS", "1000"))
	return &interrupted{program: p, stores: map[string]*wire{"Postgres": postgres, "Redis": redis}, admin: p.loggedIn(adminName, adminPass)}
}

// at is a browser at an address of its own, because limits count by address.
func (p *interrupted) at() (b *browser, header, value string) {
	p.clients++
	return p.browser(), "X-Forwarded-For", fmt.Sprintf("2001:db8:%x::1", p.clients)
}

// everywhere runs a step once for each message to each store, and for each answer: prepare
// sets the stage, try does what is interrupted and returns the status, and check looks at
// what is left. It ends for a store when nothing was interrupted.
func everywhere[S any](t *testing.T, p *interrupted, prepare func() S, try func(S) int, check func(t *testing.T, s S, status int)) {
	t.Helper()
	for store, w := range p.stores {
		for _, answers := range []bool{false, true} {
			interruptions := 0
			for n := int64(1); ; n++ {
				s := prepare()
				w.losing(n, answers)
				status := try(s)
				w.mu.Lock()
				reached := w.cut
				w.mu.Unlock()
				w.mend()
				p.admin.recovers(t)
				t.Run(fmt.Sprintf("%s, message %d, its answer %t", store, n, answers), func(t *testing.T) { check(t, s, status) })
				if !reached || n == 60 {
					break
				}
				interruptions++
			}
			if interruptions == 0 {
				t.Errorf("nothing was interrupted at %s", store)
			}
		}
	}
}

// settled repeats a request while the program still meets connections that were lost.
func settled(t *testing.T, request func() (int, string)) (status int, body string) {
	t.Helper()
	eventually(t, "the stores answer again", recovery, func() bool { status, body = request(); return status < http.StatusInternalServerError })
	return status, body
}

// answered returns the answer to a request that succeeds once lost connections are left
// behind.
func (p *interrupted) answered(b *browser, method, path, body string) string {
	p.t.Helper()
	status, answer := settled(p.t, func() (int, string) { return b.request(method, prefix+path, body) })
	if status >= http.StatusBadRequest {
		p.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// loggedIn is a browser that has logged in once lost connections are left behind.
func (p *interrupted) loggedIn(name, pass string) *browser {
	p.t.Helper()
	b := p.browser()
	if status, answer := settled(p.t, func() (int, string) { return b.login(name, pass) }); status != http.StatusOK {
		p.t.Fatalf("login of %s: %d %s", name, status, answer)
	}
	return b
}

// answerOf reads an answer of the admin.
func (p *interrupted) answerOf(method, path, body string, into any) {
	p.t.Helper()
	answer := p.answered(p.admin, method, path, body)
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		p.t.Fatalf("%v: %s", err, answer)
	}
}

// TestHalfway_AnInviteIsUsedUpWithItsUserOrNot interrupts the acceptance of an invite at
// each message.
func TestHalfway_AnInviteIsUsedUpWithItsUserOrNot(t *testing.T) {
	t.Parallel()
	p := interruptible(t)
	type invite struct{ Token, username string }
	names := 0
	everywhere(t, p, func() (i invite) {
		names++
		i.username = fmt.Sprintf("paul%d", names)
		p.answerOf(http.MethodPost, "/invites", fmt.Sprintf(`{"username":%q}`, i.username), &i)
		return i
	}, func(i invite) int {
		b, header, address := p.at()
		status, _ := b.request(http.MethodPost, prefix+"/invites/accept", fmt.Sprintf(`{"token":%q,"password":"a password of mine"}`, i.Token), header, address)
		return status
	}, func(t *testing.T, i invite, status int) {
		b, header, address := p.at()
		login, _ := settled(t, func() (int, string) { return b.login(i.username, "a password of mine") })
		_, preview := settled(t, func() (int, string) {
			return b.request(http.MethodGet, prefix+"/invites/preview?token="+i.Token, "", header, address)
		})
		joined, open := login == http.StatusOK, strings.Contains(preview, `"valid":true`)
		if joined == open || status == http.StatusCreated && !joined {
			t.Errorf("after %d: the user exists: %t; the invite is open: %t", status, joined, open)
		}
	})
}

// TestHalfway_AResetLinkIsUsedUpWithThePasswordOrNot interrupts the use of a reset link at
// each message.
func TestHalfway_AResetLinkIsUsedUpWithThePasswordOrNot(t *testing.T) {
	t.Parallel()
	p := interruptible(t)
	var paul struct {
		User struct{ ID int64 }
	}
	p.answerOf(http.MethodPost, "/users", `{"username":"paul","display_name":"Paul","password":"the first password"}`, &paul)
	current, resets := "the first password", 0
	type reset struct {
		Token, before, after string
		old                  *browser
	}
	use := func(r reset, password string) (int, string) {
		b, header, address := p.at()
		return b.request(http.MethodPost, prefix+"/reset-password", fmt.Sprintf(`{"token":%q,"password":%q}`, r.Token, password), header, address)
	}
	again := func(r reset, password string) int {
		status, _ := settled(t, func() (int, string) { return use(r, password) })
		return status
	}
	everywhere(t, p, func() reset {
		resets++
		r := reset{before: current, after: fmt.Sprintf("password number %d", resets), old: p.loggedIn("paul", current)}
		p.answerOf(http.MethodPost, fmt.Sprintf("/users/%d/reset-link", paul.User.ID), "", &r)
		return r
	}, func(r reset) int {
		status, _ := use(r, r.after)
		return status
	}, func(t *testing.T, r reset, status int) {
		before, _ := settled(t, func() (int, string) { return p.browser().login("paul", r.before) })
		after, _ := settled(t, func() (int, string) { return p.browser().login("paul", r.after) })
		if (before == http.StatusOK) == (after == http.StatusOK) || status == http.StatusOK && after != http.StatusOK {
			t.Fatalf("after %d: the login answers %d with the old password, %d with the new one", status, before, after)
		}
		if after == http.StatusOK {
			current = r.after
			eventually(t, "the session of before is over", recovery, func() bool {
				me, _ := r.old.request(http.MethodGet, prefix+"/me", "")
				return me == http.StatusUnauthorized
			})
			if status := again(r, "one more password"); status != http.StatusBadRequest {
				t.Errorf("the link answers %d again", status)
			}
			return
		}
		if status := again(r, r.after); status != http.StatusOK {
			t.Errorf("the link of a password that is not set answers %d", status)
		}
		current = r.after
	})
}

// TestHalfway_ACodeGivesOneSessionOrNone interrupts the second step of a login at each message: a
// code may be lost, but whoever got a session has used it up.
func TestHalfway_ACodeGivesOneSessionOrNone(t *testing.T) {
	t.Parallel()
	p := interruptible(t)
	type login struct {
		*browser
		username string
		codes    []string
	}
	users := 0
	// begin returns a browser in which the password was right.
	begin := func(username string) *browser {
		b := p.browser()
		status, body := settled(t, func() (int, string) { return b.login(username, "a password of mine") })
		if status != http.StatusOK || !strings.Contains(body, `"twoFactorRequired":true`) {
			t.Fatalf("the login of %s answers %d %s", username, status, body)
		}
		return b
	}
	verify := func(b *browser, code string) int {
		status, _ := b.request(http.MethodPost, prefix+"/2fa/verify", fmt.Sprintf(`{"code":%q}`, code))
		return status
	}
	everywhere(t, p, func() login {
		users++
		l := login{username: fmt.Sprintf("paul%d", users)}
		p.answerOf(http.MethodPost, "/users", fmt.Sprintf(`{"username":%q,"display_name":"Paul","password":"a password of mine"}`, l.username), &struct{}{})
		b := p.loggedIn(l.username, "a password of mine")
		var setup struct{ Data struct{ Secret string } }
		if err := json.Unmarshal([]byte(p.answered(b, http.MethodPost, "/2fa/setup", "")), &setup); err != nil {
			t.Fatal(err)
		}
		var enabled struct {
			Data struct {
				Codes []string `json:"recovery_codes"`
			}
		}
		if err := json.Unmarshal([]byte(p.answered(b, http.MethodPost, "/2fa/enable", fmt.Sprintf(`{"code":%q}`, codeNow(t, setup.Data.Secret)))), &enabled); err != nil {
			t.Fatal(err)
		}
		l.codes, l.browser = enabled.Data.Codes, begin(l.username)
		return l
	}, func(l login) int { return verify(l.browser, l.codes[0]) }, func(t *testing.T, l login, status int) {
		me, _ := settled(t, func() (int, string) { return l.request(http.MethodGet, prefix+"/me", "") })
		if (status == http.StatusOK) != (me == http.StatusOK) {
			t.Errorf("after %d /me answers %d", status, me)
		}
		if again := verify(begin(l.username), l.codes[0]); status == http.StatusOK && again != http.StatusUnauthorized {
			t.Errorf("after %d the code answers %d again", status, again)
		}
		if next := verify(begin(l.username), l.codes[1]); next != http.StatusOK {
			t.Errorf("after %d the next code answers %d", status, next)
		}
	})
}

// TestHalfway_ASecondFactorIsOnWithItsCodesOrOff interrupts the end of its set-up at each message.
func TestHalfway_ASecondFactorIsOnWithItsCodesOrOff(t *testing.T) {
	t.Parallel()
	p := interruptible(t)
	type setup struct {
		*browser
		username, secret string
	}
	users := 0
	everywhere(t, p, func() setup {
		users++
		s := setup{username: fmt.Sprintf("paul%d", users)}
		p.answerOf(http.MethodPost, "/users", fmt.Sprintf(`{"username":%q,"display_name":"Paul","password":"a password of mine"}`, s.username), &struct{}{})
		s.browser = p.loggedIn(s.username, "a password of mine")
		var begun struct{ Data struct{ Secret string } }
		if err := json.Unmarshal([]byte(p.answered(s.browser, http.MethodPost, "/2fa/setup", "")), &begun); err != nil {
			t.Fatal(err)
		}
		s.secret = begun.Data.Secret
		return s
	}, func(s setup) int {
		status, _ := s.request(http.MethodPost, prefix+"/2fa/enable", fmt.Sprintf(`{"code":%q}`, codeNow(t, s.secret)))
		return status
	}, func(t *testing.T, s setup, status int) {
		var state struct {
			Data struct {
				Enabled bool
				Codes   int `json:"recovery_remaining"`
			}
		}
		answered, body := settled(t, func() (int, string) { return s.request(http.MethodGet, prefix+"/2fa", "") })
		if err := json.Unmarshal([]byte(body), &state); err != nil || answered != http.StatusOK {
			t.Fatalf("the state after %d: %d %s", status, answered, body)
		}
		_, login := settled(t, func() (int, string) { return p.browser().login(s.username, "a password of mine") })
		asked := strings.Contains(login, `"twoFactorRequired":true`)
		if asked != state.Data.Enabled || (state.Data.Codes == 10) != state.Data.Enabled || status == http.StatusOK && !asked {
			t.Errorf("after %d the factor is on: %t, with %d codes; a login asks for it: %t", status, state.Data.Enabled, state.Data.Codes, asked)
		}
	})
}

// TestHalfway_AConfirmationReplacesTheSessionOrNot interrupts a new proof of who the user is at
// each message: there is one session before and after, or, when its new id was lost, none
// that the user has.
func TestHalfway_AConfirmationReplacesTheSessionOrNot(t *testing.T) {
	t.Parallel()
	p := interruptible(t)
	type confirmation struct {
		*browser
		username string
		before   *browser
	}
	users := 0
	everywhere(t, p, func() confirmation {
		users++
		c := confirmation{username: fmt.Sprintf("paul%d", users)}
		p.answerOf(http.MethodPost, "/users", fmt.Sprintf(`{"username":%q,"display_name":"Paul","password":"a password of mine"}`, c.username), &struct{}{})
		c.browser = p.loggedIn(c.username, "a password of mine")
		c.before = c.duplicate()
		return c
	}, func(c confirmation) int {
		status, _ := c.request(http.MethodPost, prefix+"/reauth", `{"password":"a password of mine"}`)
		return status
	}, func(t *testing.T, c confirmation, status int) {
		me := func(b *browser) int {
			status, _ := settled(t, func() (int, string) { return b.request(http.MethodGet, prefix+"/me", "") })
			return status
		}
		if before, now := me(c.before), me(c.browser); status == http.StatusOK && (before != http.StatusUnauthorized || now != http.StatusOK) {
			t.Errorf("after %d the session of before answers %d, that of now %d", status, before, now)
		}
		var sessions struct{ Data []struct{ ID string } }
		if err := json.Unmarshal([]byte(p.answered(p.loggedIn(c.username, "a password of mine"), http.MethodGet, "/sessions", "")), &sessions); err != nil {
			t.Fatal(err)
		}
		if len(sessions.Data) != 2 { // and that of the list
			t.Errorf("after %d there are %d sessions", status, len(sessions.Data)-1)
		}
	})
}

// codeNow is what an authenticator app shows.
func codeNow(t *testing.T, secret string) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	return factor.Code(key, factor.StepOf(time.Now()))
}
