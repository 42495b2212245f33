package account_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/app/apptest"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

func (r *rules) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// applications creates the group kids and an application for each rule, named after it.
func (r *rules) applications() {
	r.t.Helper()
	ctx := r.t.Context()
	r.ok(r.policy.CreateGroup(ctx, session.Session{}, "kids", ""))
	for _, n := range []policy.NewApplication{
		{Slug: "login", URL: "/login/", Tokens: true},
		{Slug: "admin", URL: "https://admin.example.org", Rule: "admin", Tokens: true},
		{Slug: "group", URL: "https://group.example.org", Rule: "group", Group: "kids", Tokens: true},
		{Slug: "closed", URL: "/closed/"},
	} {
		r.ok(r.policy.CreateApplication(ctx, session.Session{}, n))
	}
}

// openable returns the slugs of what a session's user may open.
func (r *rules) openable(of session.Session) string {
	r.t.Helper()
	apps, err := r.policy.Openable(r.t.Context(), of)
	r.ok(err)
	var slugs []string
	for _, a := range apps {
		slugs = append(slugs, a.Slug)
	}
	return strings.Join(slugs, " ")
}

// TestApplication_IsOpenByGroupAndRole has one session, which is not renewed.
func TestApplication_IsOpenByGroupAndRole(t *testing.T) {
	r := newRules(t)
	r.applications()
	r.add("otto")
	r.ok(r.people.SetRole(t.Context(), r.add("anna").Username, "admin"))
	s, err := r.login("otto", oldPass)
	r.ok(err)
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"a member", func() error { return nil }, "closed login"},
		{"in the group", func() error { return r.policy.SetMember(t.Context(), "kids", "otto", true) }, "closed group login"},
		{"promoted", func() error { return r.people.SetRole(t.Context(), "otto", "admin") }, "admin closed group login"},
		{"out of the group, an admin", func() error { return r.policy.SetMember(t.Context(), "kids", "otto", false) }, "admin closed login"},
		{"demoted", func() error { return r.people.SetRole(t.Context(), "otto", "member") }, "closed login"},
	} {
		r.ok(step.do())
		if got := r.openable(s); got != step.want {
			t.Errorf("%s: may open %q, want %q", step.what, got, step.want)
		}
	}
	r.ok(r.policy.SetMember(t.Context(), "kids", "otto", true))
	r.ok(r.remove("otto"))
	if v, err := r.policy.Visitor(t.Context(), s); !errors.Is(err, user.ErrNotFound) {
		t.Errorf("deleted: %+v, %v", v, err)
	}
}

// TestSession_ThatWasRevokedIsNoVisitor also holds while Redis does not answer.
func TestSession_ThatWasRevokedIsNoVisitor(t *testing.T) {
	r := newRules(t)
	r.applications()
	r.add("otto")
	s, err := r.login("otto", oldPass)
	r.ok(err)
	r.sessions.away.Store(true)
	if err := r.ResetPassword(t.Context(), "otto", newPass); !errors.Is(err, account.ErrPending) {
		t.Fatal(err)
	}
	if v, err := r.policy.Visitor(t.Context(), s); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestToken_OpensNoMoreThanItsUserMay(t *testing.T) {
	r := newRules(t)
	r.applications()
	otto := r.add("otto")
	r.add("anna")
	r.ok(r.people.SetRole(t.Context(), "anna", "admin"))
	own := apptest.Must(r.login("otto", oldPass))(t)
	create := func(by session.Session, slugs ...string) (string, error) {
		_, text, err := r.policy.CreateToken(t.Context(), by, policy.NewToken{UserID: otto.ID, Name: "Kalender", Applications: slugs})
		return text, err
	}
	for what, slugs := range map[string][]string{
		"nothing": {}, "what is unknown": {"nobody"}, "what accepts none": {"closed"}, "what admins use": {"login", "admin"}, "what a group uses": {"group"}, "everything": {"*"},
	} {
		for _, by := range []session.Session{own, apptest.Must(r.login("anna", oldPass))(t), {}} {
			if _, err := create(by, slugs...); !errors.Is(err, token.ErrScope) {
				t.Errorf("for %s: %v", what, err)
			}
		}
	}
	r.ok(r.policy.SetMember(t.Context(), "kids", "otto", true))
	text, err := create(own, "login", "group", "login")
	r.ok(err)
	got, v, err := r.policy.TokenVisitor(t.Context(), text, "otto")
	if err != nil || !slices.Equal(got.Applications, []string{"group", "login"}) || v.User.Username != "otto" || !slices.Equal(v.Groups, []string{"kids"}) {
		t.Errorf("got %+v, %+v, %v", got, v, err)
	}
	for what, name := range map[string]string{"another user": "anna", "another letter case": "Otto"} {
		if _, _, err := r.policy.TokenVisitor(t.Context(), text, name); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("with the name of %s: %v", what, err)
		}
	}
	for _, wrong := range []string{"", oldPass, "pft_", text + "x", token.New()} {
		if _, _, err := r.policy.TokenVisitor(t.Context(), wrong, ""); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("the token %q: %v", wrong, err)
		}
	}
	r.ok(r.policy.SetMember(t.Context(), "kids", "otto", false))
	if _, v, err := r.policy.TokenVisitor(t.Context(), text, ""); err != nil || len(v.Groups) != 0 {
		t.Errorf("out of the group: %+v, %v", v, err)
	}
	r.ok(r.ResetPassword(t.Context(), "otto", newPass))
	if _, _, err := r.policy.TokenVisitor(t.Context(), text, ""); err != nil {
		t.Errorf("after a new password: %v", err)
	}
	r.ok(r.remove("otto"))
	if _, _, err := r.policy.TokenVisitor(t.Context(), text, ""); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("of a deleted user: %v", err)
	}
}

func TestToken_DoesNotBeginExpired(t *testing.T) {
	r := newRules(t)
	r.applications()
	otto := r.add("otto")
	for expires, want := range map[time.Time]error{time.Now().Add(-time.Second): token.ErrExpiry, time.Now().Add(time.Hour): nil, {}: nil} {
		if _, _, err := r.policy.CreateToken(t.Context(), session.Session{}, policy.NewToken{UserID: otto.ID, Name: "x", Applications: []string{"login"}, ExpiresAt: expires}); !errors.Is(err, want) {
			t.Errorf("%s: %v", expires, err)
		}
	}
	if _, _, err := r.policy.CreateToken(t.Context(), session.Session{}, policy.NewToken{UserID: otto.ID, Applications: []string{"login"}}); !errors.Is(err, application.ErrName) {
		t.Errorf("without a name: %v", err)
	}
}

func TestApplication_WrongFieldsAreRefused(t *testing.T) {
	r := newRules(t)
	r.applications()
	right := policy.NewApplication{Slug: "notes", URL: "/notes/"}
	with := func(change func(*policy.NewApplication)) policy.NewApplication {
		n := right
		change(&n)
		return n
	}
	for _, c := range []struct {
		n    policy.NewApplication
		want error
	}{
		{with(func(n *policy.NewApplication) { n.Slug = "Notes" }), application.ErrSlug},
		{with(func(n *policy.NewApplication) { n.Name = "a\nb" }), application.ErrName},
		{with(func(n *policy.NewApplication) { n.Description = strings.Repeat("x", 201) }), application.ErrDescription},
		{with(func(n *policy.NewApplication) { n.URL = "http://notes.example.org" }), application.ErrURL},
		{with(func(n *policy.NewApplication) { n.Rule = "everybody" }), application.ErrRule},
		{with(func(n *policy.NewApplication) { n.Rule = "group" }), application.ErrRule},
		{with(func(n *policy.NewApplication) { n.Group = "kids" }), application.ErrRule},
		{with(func(n *policy.NewApplication) { n.Rule, n.Group = "group", "nobody" }), application.ErrGroupNotFound},
		{with(func(n *policy.NewApplication) { n.Color = "blue" }), user.ErrAvatarColor},
		{with(func(n *policy.NewApplication) { n.Position = -1 }), application.ErrPosition},
		{with(func(n *policy.NewApplication) { n.URL = "HTTPS://Group.Example.org:443" }), application.ErrURLTaken},
	} {
		if err := r.policy.CreateApplication(t.Context(), session.Session{}, c.n); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.n, err, c.want)
		}
	}
	r.ok(r.policy.CreateApplication(t.Context(), session.Session{}, right))
	rule, group, name := "group", "kids", ""
	for _, c := range []struct {
		change policy.ApplicationChange
		want   error
	}{
		{policy.ApplicationChange{Rule: &rule}, application.ErrRule},
		{policy.ApplicationChange{Group: &group}, application.ErrRule},
		{policy.ApplicationChange{Name: &name}, application.ErrName},
		{policy.ApplicationChange{Rule: &rule, Group: &group}, nil},
	} {
		if err := r.policy.ChangeApplication(t.Context(), session.Session{}, "notes", c.change); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.change, err, c.want)
		}
	}
	login := "login"
	r.ok(r.policy.ChangeApplication(t.Context(), session.Session{}, "notes", policy.ApplicationChange{Rule: &login}))
	apps, err := r.policy.Applications(t.Context())
	r.ok(err)
	i := slices.IndexFunc(apps, func(a application.Application) bool { return a.Slug == "notes" })
	apps[i].ID = 0
	if want := (application.Application{Slug: "notes", Name: "notes", URL: "/notes/", Rule: application.Login, Color: user.DefaultAvatarColor, Reached: true}); apps[i] != want {
		t.Errorf("got %+v, want %+v", apps[i], want)
	}
}

func TestGroup_IsNotNamedAfterARole(t *testing.T) {
	r := newRules(t)
	for _, slug := range []string{"admin", "member", "Kids", ""} {
		if err := r.policy.CreateGroup(t.Context(), session.Session{}, slug, "x"); !errors.Is(err, application.ErrSlug) {
			t.Errorf("%q: %v", slug, err)
		}
	}
	if err := r.policy.CreateGroup(t.Context(), session.Session{}, "kids", "a\nb"); !errors.Is(err, application.ErrName) {
		t.Errorf("a name of two lines: %v", err)
	}
}

// tokenStore has another name than its method Tokens, so that it can be embedded.
type tokenStore = policy.Tokens

// hookedTokens notes the instant of a sweep.
type hookedTokens struct {
	tokenStore
	swept time.Time
}

func (h *hookedTokens) SweepTokens(ctx context.Context, before time.Time) (int64, error) {
	h.swept = before
	return h.tokenStore.SweepTokens(ctx, before)
}

func TestSweepTokens_KeepsWhatEndedLately(t *testing.T) {
	r := newRules(t)
	begin := time.Now()
	if err := r.policy.SweepTokens(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kept := begin.Sub(r.tokens.swept); kept > token.KeepEnded || kept < token.KeepEnded-time.Hour {
		t.Errorf("kept for %s, want %s", kept, token.KeepEnded)
	}
}
