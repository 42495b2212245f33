package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// into decodes an answer.
func (r reply) into(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		r.t.Fatalf("%s: %s: %v", r.what, r.body, err)
	}
}

// because checks the reason of a refusal.
func (r reply) because(status int, reason string) reply {
	r.t.Helper()
	var body struct {
		Error, Reason string
		Code          int
	}
	r.into(&body)
	if r.status != status || body.Code != status || body.Error == "" || body.Reason != reason {
		r.t.Errorf("%s: got %d %s, want %d and the reason %q", r.what, r.status, r.body, status, reason)
	}
	return r
}

// invite creates an invite as anna and returns its token.
func (h *fixture) invite(pairs ...any) string {
	h.t.Helper()
	var body struct{ Token string }
	h.anna().send(http.MethodPost, prefix+"/invites", object(pairs...)).want(http.StatusCreated).into(&body)
	return body.Token
}

// resetLink creates a reset link for otto as anna and returns its token.
func (h *fixture) resetLink() string {
	h.t.Helper()
	var body struct{ Token string }
	h.anna().send(http.MethodPost, prefix+"/users/2/reset-link", "").want(http.StatusCreated).into(&body)
	return body.Token
}

// elsewhere is a browser at another address, so that the limit of links is its own.
func (h *fixture) elsewhere() *browser {
	b := h.browser()
	h.addresses++
	b.addr = fmt.Sprintf("198.51.100.%d:1234", h.addresses)
	return b
}

func (b *browser) accept(token string, pairs ...any) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/invites/accept", object(append([]any{"token", token}, pairs...)...))
}

func (b *browser) reset(token, pass string) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/reset-password", object("token", token, "password", pass))
}

func TestInvite_LetsAPersonJoin(t *testing.T) {
	h := newFixture(t)
	token := h.invite("username", "paul", "display_name", "Paul")
	for range 5 { // as messengers do
		var preview struct {
			Data struct {
				Valid       bool
				Username    string
				DisplayName string `json:"display_name"`
			}
		}
		h.elsewhere().get(prefix + "/invites/preview?token=" + token).want(http.StatusOK).into(&preview)
		if !preview.Data.Valid || preview.Data.Username != "paul" || preview.Data.DisplayName != "Paul" {
			t.Fatalf("got %+v", preview)
		}
	}
	h.elsewhere().accept(token, "password", "short").want(http.StatusBadRequest)
	b := h.elsewhere()
	b.accept(token, "password", newPass, "username", "eve", "role", "admin").want(http.StatusCreated)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	h.elsewhere().accept(token, "password", newPass).because(http.StatusBadRequest, "invalid_token")
	var me struct {
		User struct {
			Role        string
			DisplayName string `json:"display_name"`
		}
	}
	b.login("paul", newPass).want(http.StatusOK).into(&me)
	if me.User.Role != "member" || me.User.DisplayName != "Paul" {
		t.Errorf("got %+v", me)
	}
}

func TestInvite_IsListedAndRevoked(t *testing.T) {
	h := newFixture(t)
	anna := h.anna()
	token := h.invite("system_admin", true)
	var list struct {
		Data struct {
			Invites []struct {
				ID        int64
				Role      string
				InvitedBy string `json:"invited_by"`
			}
		}
	}
	anna.get(prefix + "/invites").want(http.StatusOK).into(&list)
	if len(list.Data.Invites) != 1 || list.Data.Invites[0].Role != "admin" || list.Data.Invites[0].InvitedBy != "Anna" {
		t.Fatalf("got %+v", list)
	}
	path := fmt.Sprint(prefix, "/invites/", list.Data.Invites[0].ID)
	anna.send(http.MethodDelete, path, "").want(http.StatusOK)
	anna.send(http.MethodDelete, path, "").because(http.StatusNotFound, "not_found")
	anna.send(http.MethodDelete, prefix+"/invites/x", "").because(http.StatusNotFound, "not_found")
	h.elsewhere().accept(token, "username", "paul", "password", newPass).because(http.StatusBadRequest, "invalid_token")
	if got := h.elsewhere().get(prefix + "/invites/preview?token=" + token).want(http.StatusOK); strings.Contains(string(got.body), `"valid":true`) {
		t.Errorf("a revoked invite is valid: %s", got.body)
	}
	anna.send(http.MethodPost, prefix+"/invites", object("username", "otto")).want(http.StatusConflict)
	anna.send(http.MethodPost, prefix+"/invites", object("username", "x")).want(http.StatusBadRequest)
	free := h.invite()
	h.elsewhere().accept(free, "username", "otto", "password", newPass).want(http.StatusConflict)
	h.elsewhere().accept(free, "username", "paul", "password", newPass).want(http.StatusCreated)
}

// TestResetLink_SetsThePasswordOnce also checks that a weak password changes nothing.
func TestResetLink_SetsThePasswordOnce(t *testing.T) {
	h := newFixture(t)
	otto := h.otto()
	older, token := h.resetLink(), h.resetLink()
	h.elsewhere().reset(older, newPass).because(http.StatusBadRequest, "invalid_token")
	h.elsewhere().reset(token, "short").want(http.StatusBadRequest)
	otto.get(prefix + "/me").want(http.StatusOK)
	b := h.elsewhere()
	b.reset(token, newPass).want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	otto.get(prefix + "/me").want(http.StatusUnauthorized)
	h.elsewhere().login("otto", userPass).want(http.StatusUnauthorized)
	b.login("otto", newPass).want(http.StatusOK)
	h.elsewhere().reset(token, "another "+newPass).because(http.StatusBadRequest, "invalid_token")
	anna := h.anna()
	anna.send(http.MethodPost, prefix+"/users/1/reset-link", "").because(http.StatusBadRequest, "own_account")
	anna.send(http.MethodPost, prefix+"/users/99/reset-link", "").want(http.StatusNotFound)
	anna.send(http.MethodPost, prefix+"/users/x/reset-link", "").want(http.StatusNotFound)
}

// TestResetLink_StaysAfterAWellKnownPassword also checks the names.
func TestResetLink_StaysAfterAWellKnownPassword(t *testing.T) {
	h := newFixture(t)
	token := h.resetLink()
	for _, pw := range []string{"password1", "Qwertyuiop"} {
		h.elsewhere().reset(token, pw).because(http.StatusBadRequest, "common_password")
	}
	h.browser().login("otto", userPass).want(http.StatusOK)
	invite := h.invite("username", "petra.berg")
	h.elsewhere().accept(invite, "password", "Petra.Berg").because(http.StatusBadRequest, "common_password")
	h.elsewhere().accept(invite, "password", newPass).want(http.StatusCreated)
	h.elsewhere().reset(token, newPass).want(http.StatusOK)
	h.anna().create("username", "paul", "password", "password1").want(http.StatusCreated) // AUTH-8.8
}

// TestLinks_ThatCannotBeUsedAreAnsweredAlike compares the answers.
func TestLinks_ThatCannotBeUsedAreAnsweredAlike(t *testing.T) {
	h := newFixture(t)
	used := h.resetLink()
	h.elsewhere().reset(used, newPass).want(http.StatusOK)
	otherKind, expired := h.invite(), h.resetLink()
	h.clock.Advance(link.Reset.Lifetime())
	answers := map[string]string{}
	for what, token := range map[string]string{"unknown": secrets.New(), "empty": "", "used": used, "another kind's": otherKind, "expired": expired, "long": strings.Repeat("x", 10_000)} {
		answers[string(h.elsewhere().reset(token, newPass).because(http.StatusBadRequest, "invalid_token").body)] = what
	}
	if len(answers) != 1 {
		t.Errorf("got %v", answers)
	}
}

func TestForgotten_IsAnsweredTheSameForEveryName(t *testing.T) {
	h := newFixture(t)
	answers := map[string]bool{}
	for _, name := range []string{"otto", "nobody", "", strings.Repeat("x", 1000), "ot\x00to"} {
		answers[string(h.elsewhere().send(http.MethodPost, prefix+"/forgot-password", object("identifier", name)).want(http.StatusOK).body)] = true
	}
	if len(answers) != 1 {
		t.Errorf("got %v", answers)
	}
	h.audit.Drain()
	for id, asked := range map[int64]bool{1: false, 2: true} {
		if d := must(h.people.Member(t.Context(), id))(t); d.ResetAskedAt.IsZero() == asked {
			t.Errorf("user %d asked at %v", id, d.ResetAskedAt)
		}
	}
	if strings.Contains(h.log.String(), "ot\\u0000to") {
		t.Error("the log has a typed name")
	}
}

// emptied is a fixture without users.
func emptied(t *testing.T) *fixture {
	h := newFixture(t)
	if _, err := h.db.Writer.ExecContext(t.Context(), `DELETE FROM users`); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *fixture) setupLink() string {
	h.t.Helper()
	_, token, err := h.people.CreateSetupLink(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

func (b *browser) setUp(code string, pairs ...any) reply {
	b.h.t.Helper()
	body := []any{"code", code, "household", "Familie Berg", "username", "petra", "display_name", "Petra", "password", newPass}
	return b.send(http.MethodPost, prefix+"/setup", object(append(body, pairs...)...))
}

func TestSetUp_FirstAdminComesByALink(t *testing.T) {
	h := emptied(t)
	older, token := h.setupLink(), h.setupLink()
	h.elsewhere().setUp(older).because(http.StatusForbidden, "setup_code")
	h.elsewhere().setUp("").because(http.StatusForbidden, "setup_code")
	h.elsewhere().setUp(token, "password", "short").want(http.StatusBadRequest)
	h.elsewhere().setUp(token, "household", strings.Repeat("x", 65)).because(http.StatusBadRequest, "household")
	b := h.elsewhere()
	b.setUp(token).want(http.StatusCreated)
	b.login("petra", newPass).want(http.StatusOK)
	b.get(prefix + "/users").want(http.StatusOK)
	h.elsewhere().setUp(token).want(http.StatusNotFound)
	if household := must(h.accounts.Household(t.Context()))(t); household.Name != "Familie Berg" {
		t.Errorf("got %+v", household)
	}
}

func TestSetUp_RacedByManyCreatesOneAdmin(t *testing.T) {
	h := emptied(t)
	token := h.setupLink()
	answers := make(chan int, 20)
	var all sync.WaitGroup
	for i := range 20 {
		b := h.elsewhere()
		b.unchecked = true
		all.Go(func() { answers <- b.setUp(token, "username", fmt.Sprint("petra", i)).status })
	}
	all.Wait()
	close(answers)
	created := 0
	for status := range answers {
		switch status {
		case http.StatusCreated:
			created++
		case http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable: // the queue of passwords may be full
		default:
			t.Errorf("got %d", status)
		}
	}
	users := must(h.people.List(t.Context()))(t)
	if created != 1 || len(users) != 1 {
		t.Errorf("%d created, %d users", created, len(users))
	}
}

// TestLinks_RequestsAreLimitedPerAddress also checks that all routes share the limit.
func TestLinks_RequestsAreLimitedPerAddress(t *testing.T) {
	for _, route := range anonymousRoutes {
		h := newFixture(t)
		b := h.elsewhere()
		for i := range 10 {
			if status := b.get(prefix + "/invites/preview?token=x").status; status != http.StatusOK {
				t.Fatalf("request %d: %d", i, status)
			}
		}
		if got := route.send(b).want(http.StatusTooManyRequests); got.header.Get("Retry-After") == "" || got.header.Get("RateLimit-Policy") != "10;w=60" {
			t.Errorf("%s: %v", got.what, got.header)
		}
		h.clock.Advance(time.Minute)
		if got := route.send(b); got.status == http.StatusTooManyRequests {
			t.Errorf("%s after the window: %d", got.what, got.status)
		}
	}
}

// TestLinks_AForeignPageUsesUpNoLimit sends, more often than any limit allows, what a page of another site can have a
// browser send without asking first.
func TestLinks_AForeignPageUsesUpNoLimit(t *testing.T) {
	h := newFixture(t)
	b := h.fastBrowser()
	ceremonies := []request{
		{http.MethodPost, "/passkeys/login/options", ""},
		{http.MethodPost, "/2fa/passkey/options", ""},
		{http.MethodPost, "/2fa/passkey", ""},
	}
	for _, route := range slices.Concat(anonymousRoutes, ceremonies) {
		for i := range 31 {
			b.unchecked = i > 0
			got := b.send(route.method, prefix+route.path, route.body,
				"Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site")
			got.because(http.StatusForbidden, "foreign_page")
		}
	}
	for range 31 { // what it has the browser fetch ahead is nobody's
		got := b.send(http.MethodGet, prefix+"/invites/preview?token=x", "", "Sec-Fetch-Site", "none", "Sec-Purpose", "prefetch")
		got.because(http.StatusForbidden, "foreign_page")
	}
	for _, own := range []string{"same-origin", "same-site", "none"} {
		b.send(http.MethodGet, prefix+"/invites/preview?token=x", "", "Sec-Fetch-Site", own).want(http.StatusOK)
		b.send(http.MethodPost, prefix+"/passkeys/login/options", "", "Sec-Fetch-Site", own).want(http.StatusOK)
	}
}

// request is a request to a route.
type request struct{ method, path, body string }

func (r request) send(b *browser) reply { return b.send(r.method, prefix+r.path, r.body) }

var anonymousRoutes = []request{
	{http.MethodGet, "/invites/preview?token=x", ""},
	{http.MethodPost, "/invites/accept", `{}`},
	{http.MethodPost, "/setup", `{}`},
	{http.MethodPost, "/forgot-password", `{}`},
	{http.MethodPost, "/reset-password", `{}`},
	{http.MethodPost, "/join/passkey/options", `{}`},
	{http.MethodPost, "/join/passkey", `{}`},
}

func TestLinks_ARequestThatCannotBeCountedFails(t *testing.T) {
	h := newFixture(t)
	h.brokenLimits.Store(true)
	for _, route := range anonymousRoutes {
		route.send(h.elsewhere()).want(http.StatusInternalServerError)
	}
}

func TestLinks_BodiesAreCheckedAsAllAre(t *testing.T) {
	for _, route := range anonymousRoutes[1:] {
		h := newFixture(t)
		b := h.elsewhere()
		b.send(route.method, prefix+route.path, `{"token":`).want(http.StatusBadRequest)
		b.send(route.method, prefix+route.path, `{}`, "Content-Type", "text/plain").want(http.StatusUnsupportedMediaType)
		b.send(route.method, prefix+route.path, `{"x":"`+strings.Repeat("x", 70_000)+`"}`).want(http.StatusRequestEntityTooLarge)
	}
}

// TestLinks_AreNotChangedByAClientsHeader sends hosts that are not the household's.
func TestLinks_AreNotChangedByAClientsHeader(t *testing.T) {
	for public, want := range map[string]string{"": "", "https://home.example.org": "https://home.example.org/pforte/join?t="} {
		h := newFixture(t, func(s *settings) { s.publicURL = public })
		var body struct {
			Data struct{ Path, URL string }
		}
		got := h.anna().send(http.MethodPost, prefix+"/invites", `{}`, "Host", "evil.example", "X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example", "X-Forwarded-Proto", "http")
		got.want(http.StatusCreated).into(&body)
		if strings.Contains(string(got.body), "evil") || !strings.HasPrefix(body.Data.Path, "/pforte/join?t=") || !strings.HasPrefix(body.Data.URL, want) || want == "" && body.Data.URL != "" {
			t.Errorf("PUBLIC_URL %q: %s", public, got.body)
		}
	}
}

// TestLinks_TokensAreNotLoggedOrAudited uses one link of each kind.
func TestLinks_TokensAreNotLoggedOrAudited(t *testing.T) {
	h := emptied(t)
	tokens := []string{h.setupLink()}
	h.elsewhere().setUp(tokens[0]).want(http.StatusCreated)
	h.add("anna", "Anna", adminPass, "admin")
	otto := h.add("otto", "Otto", userPass, "member")
	anna := h.anna()
	for path, body := range map[string]string{"/invites": `{}`, fmt.Sprint("/users/", otto, "/reset-link"): ""} {
		var link struct{ Token string }
		anna.send(http.MethodPost, prefix+path, body).want(http.StatusCreated).into(&link)
		tokens = append(tokens, link.Token)
		h.elsewhere().get(prefix + "/invites/preview?token=" + link.Token)
		h.elsewhere().accept(link.Token, "username", "paul", "password", newPass)
		h.elsewhere().reset(link.Token, newPass)
	}
	h.audit.Drain()
	var file strings.Builder
	if err := h.audit.WriteCSV(t.Context(), &file, everything); err != nil {
		t.Fatal(err)
	}
	for _, token := range append(tokens, newPass, adminPass) {
		if strings.Contains(h.log.String(), token) || strings.Contains(file.String(), token) {
			t.Errorf("%s is in the log or the audit", token)
		}
	}
	for _, event := range []string{"setup", "invite_made", "invite_accepted", "reset_made", "reset_used"} {
		if !strings.Contains(file.String(), ","+event+",") {
			t.Errorf("the audit has no %s:\n%s", event, file.String())
		}
	}
}

func TestLinks_PasswordsWaitInTheQueue(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.hasher = password.Options{Cost: 10, Concurrency: 1, Queue: 1} })
	invite, reset := h.invite(), h.resetLink()
	set := newFixture(t, func(s *settings) { s.hasher = password.Options{Cost: 10, Concurrency: 1, Queue: 1} })
	if _, err := set.db.Writer.ExecContext(t.Context(), `DELETE FROM users`); err != nil {
		t.Fatal(err)
	}
	code := set.setupLink()
	busy := func(send func(i int) reply) {
		t.Helper()
		answers := make(chan reply, 30)
		var all sync.WaitGroup
		for i := range cap(answers) {
			all.Go(func() { answers <- send(i) })
		}
		all.Wait()
		close(answers)
		refused := 0
		for got := range answers {
			if got.status == http.StatusServiceUnavailable {
				refused++
				describe(t, got.to, got)
			}
		}
		if refused == 0 {
			t.Error("none was refused as busy")
		}
	}
	tabs := func(h *fixture) []*browser {
		all := make([]*browser, 30)
		for i := range all {
			all[i] = h.elsewhere()
			all[i].unchecked = true
		}
		return all
	}
	joining, resetting, first := tabs(h), tabs(h), tabs(set)
	busy(func(i int) reply {
		return joining[i].accept(invite, "username", fmt.Sprint("paul", i), "password", newPass)
	})
	busy(func(i int) reply { return resetting[i].reset(reset, newPass) })
	busy(func(i int) reply { return first[i].setUp(code) })
}

func TestInvite_EndsWithTheSessionsOfItsAdmin(t *testing.T) {
	h := newFixture(t)
	token := h.invite("role", "admin")
	h.anna().changePassword(adminPass, "a password of anna's").want(http.StatusOK)
	h.elsewhere().accept(token, "username", "paul", "password", "long enough for paul").because(http.StatusBadRequest, "invalid_token")
	h.elsewhere().login("paul", "long enough for paul").want(http.StatusUnauthorized)
}

func TestLinks_EndUnderWayWithTheSessionsOfTheirAdmin(t *testing.T) {
	for _, path := range []string{"/invites", "/users/2/reset-link"} {
		t.Run(path, func(t *testing.T) {
			h := newFixture(t)
			owner, thief := h.anna(), h.anna()
			h.beforeLink = func() { owner.changePassword(adminPass, "a password of anna's").want(http.StatusOK) }
			thief.send(http.MethodPost, prefix+path, object("role", "admin")).want(http.StatusUnauthorized)
			owner.send(http.MethodPost, prefix+path, object("role", "admin")).want(http.StatusCreated)
		})
	}
}

func TestInvite_RefusesANameThatApplicationsKnow(t *testing.T) {
	h := newFixture(t)
	token := h.invite()
	for _, name := range []string{"admin", "Root", "gitea_admin", "--help"} {
		h.elsewhere().accept(token, "username", name, "password", "a long password").because(http.StatusBadRequest, "username_reserved")
	}
	h.elsewhere().accept(token, "username", "paul", "password", "a long password").want(http.StatusCreated)
	anna := h.anna()
	anna.send(http.MethodPost, prefix+"/invites", object("username", "-rf")).because(http.StatusBadRequest, "username_reserved")
	h.elsewhere().accept(h.invite("username", "admin"), "password", "a long password").want(http.StatusCreated)
	for _, name := range []string{"root", "--help"} { // AUTH-1.2
		anna.send(http.MethodPost, prefix+"/users", object("username", name, "display_name", "x", "password", "a long password")).want(http.StatusCreated)
	}
}

func TestInvite_ADeletedUsersNameNeedsAnAdmin(t *testing.T) {
	h := newFixture(t)
	token, anna := h.invite(), h.anna()
	anna.send(http.MethodDelete, prefix+"/users/2", "").want(http.StatusOK)
	h.elsewhere().accept(token, "username", "Otto", "password", "a long password").because(http.StatusConflict, "username_former")
	anna.send(http.MethodPost, prefix+"/invites", object("username", "otto")).because(http.StatusConflict, "username_former")
	anna.send(http.MethodPost, prefix+"/invites", object("username", "otto", "former", true)).want(http.StatusCreated)
	create := object("username", "otto", "display_name", "Otto", "password", "a long password")
	anna.send(http.MethodPost, prefix+"/users", create).want(http.StatusCreated) // AUTH-1.2
}

func TestInvite_OfAGuestHasALastDay(t *testing.T) {
	h := newFixture(t)
	anna := h.anna()
	for _, bad := range []string{"2026-02-28", "tomorrow", "2026-13-01"} {
		anna.send(http.MethodPost, prefix+"/invites", object("username", "gast", "last_day", bad)).because(http.StatusBadRequest, "last_day")
	}
	anna.send(http.MethodPost, prefix+"/invites", object("username", "gast", "last_day", "2026-03-03", "role", "admin")).because(http.StatusBadRequest, "guest_admin")
	today := h.invite("username", "gast1", "last_day", "2026-03-01")
	token := h.invite("username", "gast2", "last_day", "2026-03-03")
	var list struct {
		Data struct {
			Invites []struct {
				LastDay   string    `json:"last_day"`
				ExpiresAt time.Time `json:"expires_at"`
			}
		}
	}
	anna.get(prefix + "/invites").want(http.StatusOK).into(&list)
	got := list.Data.Invites
	if len(got) != 2 || got[0].LastDay != "2026-03-03" || got[1].LastDay != "2026-03-01" || got[0].ExpiresAt.After(h.clock.Now().Add(72*time.Hour)) {
		t.Errorf("got %+v", list)
	}
	h.elsewhere().accept(token, "password", newPass).want(http.StatusCreated)
	b := h.elsewhere()
	b.login("gast2", newPass).want(http.StatusOK)
	h.clock.Advance(36 * time.Hour)
	h.elsewhere().accept(today, "password", newPass).because(http.StatusBadRequest, "invalid_token") // the guest's time is over
	b.get(prefix + "/me").want(http.StatusOK)
	h.clock.Advance(36 * time.Hour)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	h.elsewhere().login("gast2", newPass).because(http.StatusForbidden, "account_closed")
}
