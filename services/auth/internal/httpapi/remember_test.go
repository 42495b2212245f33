package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
)

const (
	remembered = 30 * 24 * time.Hour
	shared     = 12 * time.Hour
)

func (b *browser) loginOn(remember bool) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/login", object("username", "otto", "password", userPass, "remember", remember))
}

// ofSession leaves the answer the cookies of a session.
func (r reply) ofSession() reply {
	r.header = r.header.Clone()
	r.header["Set-Cookie"] = slices.DeleteFunc(r.header["Set-Cookie"], func(c string) bool {
		return !strings.HasPrefix(c, "svc.sid=") && !strings.HasPrefix(c, "csrf-token=")
	})
	return r
}

// untilClosed checks that the cookies of a session are for as long as the browser is open.
func (h *fixture) untilClosed(r reply) {
	h.t.Helper()
	cookies := r.ofSession().header["Set-Cookie"]
	if len(cookies) != 2 || strings.Contains(strings.Join(cookies, ""), "Expires") || strings.Contains(strings.Join(cookies, ""), "Max-Age") {
		h.t.Errorf("got %q", cookies)
	}
}

func TestRemember_SessionLastsAsTheUserSays(t *testing.T) {
	for _, compat := range []bool{false, true} {
		h := newFixture(t, func(s *settings) { s.compat = compat })
		own, shares, neither := h.browser(), h.browser(), h.browser()
		got := own.loginOn(true).want(http.StatusOK)
		if !compat {
			h.wantCookiesFor(got, remembered)
		}
		h.untilClosed(shares.loginOn(false).want(http.StatusOK))
		neither.login("otto", userPass).want(http.StatusOK)
		ends := func(b *browser, unused time.Duration) {
			t.Helper()
			h.clock.Advance(unused - time.Second)
			b.get(prefix + "/me").want(http.StatusOK)
			h.clock.Advance(unused)
			b.get(prefix + "/me").want(http.StatusUnauthorized)
		}
		ends(shares, shared)
		neither.get(prefix + "/me").want(http.StatusOK)
		ends(neither, 7*24*time.Hour)
		own.get(prefix + "/me").want(http.StatusOK)
		ends(own, remembered)
	}
}

func TestRemember_IsOfTheRightType(t *testing.T) {
	h := newFixture(t)
	b := h.browser()
	for _, bad := range []string{`"yes"`, `1`, `[]`} {
		b.send(http.MethodPost, prefix+"/login", `{"username":"otto","password":"`+userPass+`","remember":`+bad+`}`).want(http.StatusBadRequest)
	}
	h.wantCookiesFor(b.send(http.MethodPost, prefix+"/login", `{"username":"otto","password":"`+userPass+`","remember":null}`).want(http.StatusOK), 7*24*time.Hour)
}

func TestRemember_IsKeptByTheSecondStepAndANewProof(t *testing.T) {
	h := newFixture(t)
	app, _ := h.setUp(h.otto())
	own, shares := h.browser(), h.browser()
	own.loginOn(true).want(http.StatusOK)
	h.wantCookiesFor(own.verify(app.code(0)).want(http.StatusOK).ofSession(), remembered)
	shares.loginOn(false).want(http.StatusOK)
	h.clock.Advance(30 * time.Second)
	h.untilClosed(shares.verify(app.code(0)).want(http.StatusOK))
	for b, want := range map[*browser]bool{own: true, shares: false} {
		h.clock.Advance(30 * time.Second)
		proved := b.send(http.MethodPost, prefix+"/reauth", object("password", userPass, "code", app.code(0))).want(http.StatusOK)
		if want {
			h.wantCookiesFor(proved, remembered)
		} else {
			h.untilClosed(proved)
		}
	}
}

func TestRemember_IsKeptByPasskeys(t *testing.T) {
	h := newFixture(t)
	d := passkeytest.New(t, origin)
	otto := h.otto()
	otto.register(d)
	by := func(b *browser, path string, remember bool) reply {
		t.Helper()
		return b.send(http.MethodPost, prefix+path, object("credential", d.Get(b.begin(path+"/options")), "remember", remember)).want(http.StatusOK)
	}
	own, shares := h.browser(), h.browser()
	h.wantCookiesFor(by(own, "/passkeys/login", true).ofSession(), remembered)
	h.untilClosed(by(shares, "/passkeys/login", false))
	h.wantCookiesFor(by(own, "/reauth/passkey", false).ofSession(), remembered) // said at the login alone
	own.send(http.MethodPost, prefix+"/2fa/enable", object("passkey", true)).want(http.StatusOK)
	shares = h.browser()
	shares.loginOn(false).want(http.StatusOK)
	h.untilClosed(by(shares, "/2fa/passkey", true))
}

func TestRemember_IsShownInTheListOfSessions(t *testing.T) {
	h := newFixture(t)
	own := h.browser()
	own.loginOn(true).want(http.StatusOK)
	h.clock.Advance(time.Minute)
	h.browser().loginOn(false).want(http.StatusOK)
	h.clock.Advance(time.Minute)
	h.otto()
	h.clock.Advance(time.Minute)
	got := read[struct {
		Data []struct {
			Current    bool
			Remember   json.RawMessage
			ExpiresAt  time.Time `json:"expires_at"`
			LastUsedAt time.Time `json:"last_used_at"`
		}
	}](own.get(prefix + "/sessions").want(http.StatusOK))
	want := []struct {
		remember string
		lifetime time.Duration
	}{{"true", remembered}, {"", 7 * 24 * time.Hour}, {"false", shared}} // the one used last first
	for i, w := range want {
		if s := got.Data[i]; string(s.Remember) != w.remember || s.ExpiresAt.Sub(s.LastUsedAt).Round(2*time.Second) != w.lifetime || s.Current != (i == 0) {
			t.Errorf("%d: got %+v, remember %s", i, s, s.Remember)
		}
	}
}

func TestRemember_AtOnceEachSessionIsRenewedAsItsUserSaid(t *testing.T) {
	h := newFixture(t)
	var own, shares []*browser
	for range 50 {
		own, shares = append(own, h.browser()), append(shares, h.browser())
		own[len(own)-1].loginOn(true).want(http.StatusOK)
		shares[len(shares)-1].loginOn(false).want(http.StatusOK)
	}
	use := func(browsers []*browser, want int) {
		t.Helper()
		var wait sync.WaitGroup
		for _, b := range browsers {
			wait.Go(func() { b.get(prefix + "/me").want(want) })
		}
		wait.Wait()
	}
	h.clock.Advance(shared - time.Second)
	use(append(slices.Clone(own), shares...), http.StatusOK)
	h.clock.Advance(shared)
	use(shares, http.StatusUnauthorized)
	h.clock.Advance(remembered - shared - time.Second)
	use(own, http.StatusOK)
}
