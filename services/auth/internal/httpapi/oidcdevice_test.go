package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

func withPages(s *settings) { s.people = true }

// inEachWithPages is inEach with the pages that people see.
func inEachWithPages(t *testing.T, test func(*testing.T, *signingIn)) {
	t.Helper()
	inEach(t, test, withPages)
}

// started is the answer to a device.
type started struct {
	Device   string `json:"device_code"`
	User     string `json:"user_code"`
	Page     string `json:"verification_uri"`
	Complete string `json:"verification_uri_complete"`
	Expires  int    `json:"expires_in"`
	Interval int
}

// device has a device of grafana, which may, begin a login.
func (h *signingIn) device(changes ...string) (s started) {
	h.t.Helper()
	if err := h.oidc.Change(h.t.Context(), session.Session{}, "grafana", func(c *oidc.Client) error { c.Device = true; return nil }); err != nil {
		h.t.Fatal(err)
	}
	h.form("/pforte/oidc/device", append([]string{"scope", "openid profile"}, changes...)...).want(http.StatusOK).into(&s)
	return s
}

// poll asks for the tokens of a device.
func (h *signingIn) poll(s started, changes ...string) answered {
	h.t.Helper()
	return h.form("/pforte/oidc/token", append([]string{"grant_type", oidc.GrantDevice, "device_code", s.Device}, changes...)...)
}

// answers has a user answer for a device on its page.
func (b *browser) answers(code, do string) reply {
	b.h.t.Helper()
	form := url.Values{"user_code": {code}, "do": {do}, "csrf": {b.cookies["csrf-token"]}}
	return b.at("POST", "/pforte/device", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", origin)
}

func TestDeviceCode_SignsInAProgramWithoutABrowser(t *testing.T) {
	inEachWithPages(t, func(t *testing.T, h *signingIn) {
		s := h.device()
		if s.Page != origin+"/pforte/device" || s.Complete != s.Page+"?user_code="+s.User || s.Expires != 600 || s.Interval != 5 || len(s.User) != 9 || strings.Trim(s.User, "BCDFGHJKLMNPQRSTVWXZ-") != "" {
			t.Fatalf("got %+v", s)
		}
		h.poll(s).is(t, "before the answer", http.StatusBadRequest, "authorization_pending")
		otto := h.otto()
		page := otto.at("GET", "/pforte/device?user_code="+url.QueryEscape(strings.ToLower(strings.ReplaceAll(s.User, "-", " "))), "").want(http.StatusOK)
		for _, shown := range []string{s.User, "grafana", "Otto"} {
			if !strings.Contains(string(page.body), shown) {
				t.Errorf("the page does not show %q", shown)
			}
		}
		h.clock.Advance(5 * time.Second)
		h.poll(s).is(t, "looking is no answer", http.StatusBadRequest, "authorization_pending")
		if got := otto.answers(s.User, "yes"); got.status != http.StatusSeeOther || got.header.Get("Location") != "/pforte/device?done=device" {
			t.Fatalf("%d %s", got.status, got.body)
		}
		h.clock.Advance(5 * time.Second)
		got := h.poll(s)
		if _, claims := payload(t, got.ID); got.status != http.StatusOK || claims["preferred_username"] != "otto" || got.Scope != "openid profile" || claims["nonce"] != nil {
			t.Fatalf("%d %s", got.status, got.body)
		}
		if _, status := h.userInfo(got.Access); status != http.StatusOK {
			t.Errorf("userinfo: %d", status)
		}
		h.poll(s).is(t, "a second time", http.StatusBadRequest, "expired_token")
		otto.answers(s.User, "yes").answers(http.StatusBadRequest)
		otto.send("POST", prefix+"/logout", "").want(http.StatusOK)
		if _, status := h.userInfo(got.Access); status != http.StatusUnauthorized {
			t.Errorf("after the logout: %d", status)
		}
	})
}

func TestDeviceCode_CountsOnce(t *testing.T) {
	inEachWithPages(t, func(t *testing.T, h *signingIn) {
		s := h.device()
		h.otto().answers(s.User, "yes").answers(http.StatusSeeOther)
		var won atomic.Int64
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				switch got := patient(func() answered { return h.poll(s) }); {
				case got.status == http.StatusOK:
					won.Add(1)
				case got.Error != "expired_token":
					t.Errorf("%d %s", got.status, got.body)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d got tokens", won.Load())
		}
	})
}

func TestDeviceCode_OfManyAnswersOneCounts(t *testing.T) {
	h := newSigningIn(t, withPages)
	s := h.device()
	otto, anna := h.otto(), h.anna()
	tokens := map[*browser]string{otto: otto.cookies["csrf-token"], anna: anna.cookies["csrf-token"]}
	var taken atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			b := otto
			if i%2 == 0 {
				b = anna
			}
			form := url.Values{"user_code": {s.User}, "do": {[]string{"yes", "no"}[i/2%2]}, "csrf": {tokens[b]}}
			got := b.copy().at("POST", "/pforte/device", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", origin)
			if got.status == http.StatusSeeOther {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if taken.Load() != 1 {
		t.Errorf("%d answers were taken", taken.Load())
	}
}

func TestDeviceCode_ADeviceThatAsksTooSoonWaitsLonger(t *testing.T) {
	h := newSigningIn(t, withPages)
	s := h.device()
	for i, step := range []struct {
		wait time.Duration
		word string
	}{
		{0, "authorization_pending"},
		{5 * time.Second, "authorization_pending"},
		{4 * time.Second, "slow_down"},
		{5 * time.Second, "slow_down"},
		{15 * time.Second, "authorization_pending"},
		{15 * time.Second, "authorization_pending"},
	} {
		h.clock.Advance(step.wait)
		if got := h.poll(s); got.Error != step.word {
			t.Errorf("question %d, after %s: %s", i, step.wait, got.Error)
		}
	}
}

func TestDeviceCode_IsRefused(t *testing.T) {
	h := newSigningIn(t, withPages)
	h.form("/pforte/oidc/device", "scope", "openid").is(t, "not switched on", http.StatusBadRequest, "unauthorized_client")
	s := h.device()
	h.form("/pforte/oidc/device", "scope", "profile").is(t, "without openid", http.StatusBadRequest, "invalid_scope")
	h.form("/pforte/oidc/device", "scope", "openid", "client_secret", "x").is(t, "wrong secret", http.StatusUnauthorized, "invalid_client")
	h.poll(s, "client_secret", "x").is(t, "wrong secret, asking", http.StatusUnauthorized, "invalid_client")
	h.poll(s, "device_code", "-").is(t, "no code", http.StatusBadRequest, "invalid_request")
	for _, wrong := range []string{"x", s.User, s.Device + "x", strings.Replace(s.Device, ".", ".x", 1), strings.Split(s.Device, ".")[0] + "."} {
		h.poll(s, "device_code", wrong).is(t, wrong, http.StatusBadRequest, "expired_token")
	}
	secret := h.client("other", func(c *oidc.Client) { c.Device = true })
	h.poll(s, "client_id", "other", "client_secret", secret).is(t, "another client", http.StatusBadRequest, "invalid_grant")

	otto := h.otto()
	if got := h.browser().at("GET", "/pforte/device?user_code="+s.User, ""); got.status != http.StatusSeeOther || got.header.Get("Location") != "/pforte/login?return="+url.QueryEscape("/pforte/device?user_code="+s.User) {
		t.Errorf("without a session: %d, %s", got.status, got.header.Get("Location"))
	}
	otto.at("POST", "/pforte/device", url.Values{"user_code": {s.User}, "do": {"yes"}}.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", origin).answers(http.StatusForbidden)
	otto.answers(s.User, "").answers(http.StatusBadRequest)
	otto.answers(s.User, "no").answers(http.StatusSeeOther)
	h.clock.Advance(5 * time.Second)
	h.poll(s).is(t, "declined", http.StatusBadRequest, "access_denied")

	s = h.device()
	unanswered := h.device()
	otto.answers(s.User, "yes").answers(http.StatusSeeOther)
	if err := h.oidc.Change(t.Context(), session.Session{}, "grafana", func(c *oidc.Client) error { c.Device = false; return nil }); err != nil {
		t.Fatal(err)
	}
	h.poll(s).is(t, "switched off", http.StatusBadRequest, "invalid_grant")
	otto.answers(unanswered.User, "yes").answers(http.StatusBadRequest)
}

func TestDeviceCode_RuleAndAccountDecide(t *testing.T) {
	inEachWithPages(t, func(t *testing.T, h *signingIn) {
		s, otto := h.device(), h.otto()
		rule := func(of string) {
			t.Helper()
			if err := h.policy.ChangeApplication(t.Context(), session.Session{}, "grafana", policy.ApplicationChange{Rule: &of}); err != nil {
				t.Fatal(err)
			}
		}
		rule("admin")
		otto.answers(s.User, "yes").answers(http.StatusForbidden)
		rule("login")
		otto.answers(s.User, "yes").answers(http.StatusSeeOther)
		rule("admin") // after the answer
		h.poll(s).is(t, "the rule changed", http.StatusBadRequest, "invalid_grant")
	})
}

func TestDeviceCode_StoreThatIsAwayIsNoNo(t *testing.T) {
	h := newSigningIn(t, withPages)
	s := h.device()
	h.otto().answers(s.User, "yes").answers(http.StatusSeeOther)
	h.brokenGrants.Store(1)
	h.poll(s).is(t, "users are away", http.StatusServiceUnavailable, "temporarily_unavailable")
	h.brokenShort.Store(-1)
	h.poll(s).is(t, "Redis is away", http.StatusServiceUnavailable, "temporarily_unavailable")
	if got := h.poll(s); got.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

// TestDeviceCode_StoreThatIsAwayForLongIsNoNo has Redis fail for longer than a device is given the same login.
func TestDeviceCode_StoreThatIsAwayForLongIsNoNo(t *testing.T) {
	h := newSigningIn(t, withPages)
	s := h.device()
	h.otto().answers(s.User, "yes").answers(http.StatusSeeOther)
	for range 4 {
		h.brokenShort.Store(-1)
		h.poll(s).is(t, "meanwhile", http.StatusServiceUnavailable, "temporarily_unavailable")
		h.clock.Advance(oidc.RefreshGrace / 2)
	}
	got := h.poll(s)
	if got.status != http.StatusOK {
		t.Fatalf("afterwards: %d %s", got.status, got.body)
	}
	if _, status := h.userInfo(got.Access); status != http.StatusOK {
		t.Errorf("the access token: %d", status)
	}
}

// TestDeviceCode_LostAnswerIsGivenAgain: to a device that waits as it should, its login once more, and never another one.
func TestDeviceCode_LostAnswerIsGivenAgain(t *testing.T) {
	inEachWithPages(t, func(t *testing.T, h *signingIn) {
		otto := h.otto()
		allowed := func() started {
			t.Helper()
			s := h.device("scope", "openid offline_access")
			otto.answers(s.User, "yes").answers(http.StatusSeeOther)
			return s
		}
		connections := func(want int) oidc.Connection {
			t.Helper()
			got := must(h.oidc.Connections(t.Context(), 0, 0))(t)
			if len(got) != want {
				t.Fatalf("%d connections, want %d", len(got), want)
			}
			return got[0]
		}
		s := allowed()
		h.brokenShort.Store(1)
		h.poll(s).is(t, "Redis' answer is lost", http.StatusServiceUnavailable, "temporarily_unavailable")
		h.clock.Advance(oidc.DeviceInterval)
		first := h.poll(s)
		if first.status != http.StatusOK || first.Refresh == "" {
			t.Fatalf("afterwards: %d %s", first.status, first.body)
		}
		connections(1)
		h.poll(s).is(t, "a copy at once", http.StatusBadRequest, "expired_token")

		h.clock.Advance(oidc.DeviceInterval)
		var won atomic.Int64
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				switch got := patient(func() answered { return h.poll(s) }); {
				case got.status == http.StatusOK && got.Refresh == first.Refresh:
					won.Add(1)
				case got.Error != "expired_token":
					t.Errorf("%d %s", got.status, got.body)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("ours is lost: %d got tokens again", won.Load())
		}
		c := connections(1)
		h.clock.Advance(oidc.RefreshGrace)
		h.poll(s).is(t, "too late", http.StatusBadRequest, "invalid_grant")

		s = allowed()
		if got := h.poll(s); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		ended := connections(2)
		if ended.ID == c.ID {
			t.Fatal("the newest is not the first")
		}
		if err := h.oidc.Disconnect(t.Context(), user.Operator, ended.ID); err != nil {
			t.Fatal(err)
		}
		h.clock.Advance(oidc.DeviceInterval)
		h.poll(s).is(t, "ended meanwhile", http.StatusBadRequest, "invalid_grant")

		s = allowed()
		h.brokenGrants.Store(-1) // once the login is stored
		h.poll(s).is(t, "half of it was done", http.StatusServiceUnavailable, "temporarily_unavailable")
		if got := h.poll(s); got.status != http.StatusOK {
			t.Errorf("then: %d %s", got.status, got.body)
		}
		connections(2)
	})
}

func TestDeviceCode_GuessesAreCountedForTheUser(t *testing.T) {
	h := newSigningIn(t, withPages)
	s, otto := h.device(), h.otto()
	status := 0
	for range 100 {
		if status = otto.at("GET", "/pforte/device?user_code=BBBB-BBBB", "").status; status != http.StatusBadRequest {
			break
		}
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("the last guess: %d", status)
	}
	h.anna().at("GET", "/pforte/device?user_code="+s.User, "").want(http.StatusOK) // from the same address
	for range 30 {
		if got := h.form("/pforte/oidc/device", "scope", "openid"); got.status == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("an address begins as many logins as it likes")
}

func TestDeviceCode_WithAnApplicationBelowThePortalTheUserProvesFirst(t *testing.T) {
	h := newSigningIn(t, withPages)
	if err := h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "photos", URL: "/photos/"}); err != nil {
		t.Fatal(err)
	}
	s, other := h.device(), h.device()
	otto := h.otto() // a login that came later, as the one that opened that application, is for no device
	page := "/pforte/device?user_code=" + s.User
	asked := func(what string) {
		t.Helper()
		for _, got := range []reply{otto.at("GET", page, ""), otto.answers(s.User, "yes")} {
			if got.status != http.StatusSeeOther || got.header.Get("Location") != "/pforte/reauth?return="+url.QueryEscape(page) {
				t.Errorf("%s: %d, led to %s", what, got.status, got.header.Get("Location"))
			}
		}
	}
	// confirms has a user prove by their password who they are, on the page that shows code.
	confirms := func(b *browser, code string) {
		t.Helper()
		to := url.QueryEscape("/pforte/device?user_code=" + code)
		if shown := b.at("GET", "/pforte/reauth?return="+to, "").want(http.StatusOK); !strings.Contains(string(shown.body), ">"+code+"<") {
			t.Errorf("the page does not show %s: %s", code, shown.body)
		}
		form := url.Values{"password": {userPass}, "user_code": {code}, "return": {"/pforte/device?user_code=" + code}, "csrf": {b.cookies["csrf-token"]}}
		b.at("POST", "/pforte/reauth", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", origin).answers(http.StatusSeeOther)
	}
	asked("after a login")
	otto.reauth(userPass)
	asked("after a proof for something else")
	confirms(otto, other.User)
	asked("after a proof for another device")
	confirms(h.otto(), s.User)
	asked("after a proof of another login")
	h.poll(s).is(t, "no answer was taken", http.StatusBadRequest, "authorization_pending")

	confirms(otto, s.User)
	otto.at("GET", page, "").want(http.StatusOK)
	otto.answers(s.User, "yes").answers(http.StatusSeeOther)
	if got := h.poll(s); got.status != http.StatusOK {
		t.Errorf("after the proof: %d %s", got.status, got.body)
	}

	d := passkeytest.New(t, origin)
	otto.register(d)
	s = h.device()
	page = "/pforte/device?user_code=" + s.User
	by := func(code string) {
		t.Helper()
		answer := string(credential(d.Get(otto.begin("/reauth/passkey/options")), ""))
		answer = strings.TrimSuffix(answer, "}") + `,"user_code":"` + code + `"}`
		otto.send(http.MethodPost, prefix+"/reauth/passkey", answer).want(http.StatusOK)
	}
	by("")
	asked("after a passkey for something else")
	by(s.User)
	otto.at("GET", page, "").want(http.StatusOK)
	otto.answers(s.User, "yes").answers(http.StatusSeeOther)
}
