package sqlstore_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// newToken creates a token of a user for applications, and returns it with its hash.
func (h *household) newToken(userID int64, slugs ...string) (token.Token, string) {
	h.Helper()
	text := token.New()
	created, err := h.Tokens.CreateToken(h.Context(), token.Token{UserID: userID, Name: "Kalender", Shown: token.Shown(text), Applications: slugs}, secrets.Hash(text), h.session(userID))
	h.ok(err)
	return created, secrets.Hash(text)
}

// invalid checks that a token cannot be used, in both processes.
func (h *household) invalid(what, hash string) {
	h.Helper()
	for _, s := range []*sqlstore.Stores{h.Stores, h.other} {
		if got, _, _, err := s.Tokens.TokenVisitor(h.Context(), hash); !errors.Is(err, token.ErrInvalid) {
			h.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func TestToken_ReturnsItsUserAsStoredNow(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		h.ok(h.Applications.CreateApplication(ctx, app("dav"), application.Icon{}, h.byAnna()))
		h.ok(h.Groups.CreateGroup(ctx, "kids", "Kinder", nil, h.byAnna()))
		h.ok(h.Groups.ChangeMembers(ctx, "kids", map[int64]bool{h.otto.ID: true}, h.byAnna()))
		text := token.New()
		expires := h.now.Add(time.Hour).UTC().Truncate(time.Second)
		created := must(h.Tokens.CreateToken(ctx, token.Token{
			UserID: h.otto.ID, Name: "Kalender", Shown: token.Shown(text), Applications: []string{"photos", "dav"}, ReadOnly: true, ExpiresAt: expires,
		}, secrets.Hash(text), h.byAnna()))(h.T)
		want := token.Token{
			ID: created.ID, UserID: h.otto.ID, Username: "otto", Name: "Kalender", Shown: text[:8], Applications: []string{"dav", "photos"}, ReadOnly: true,
			CreatedBy: h.anna.ID, CreatedAt: h.now.UTC().Truncate(time.Second), ExpiresAt: expires,
		}
		got, u, groups, err := h.Tokens.TokenVisitor(ctx, secrets.Hash(text))
		h.ok(err)
		if diff := cmp.Diff([]token.Token{want, want}, []token.Token{created, got}); diff != "" {
			h.Errorf("differs (-want +got):\n%s", diff)
		}
		if u.ID != h.otto.ID || u.Username != "otto" || u.DisplayName != h.otto.DisplayName || u.Role != user.Member || !slices.Equal(groups, []string{"kids"}) {
			h.Errorf("got %+v in %q", u, groups)
		}
		h.ok(h.Users.SetRole(ctx, h.otto.ID, user.Admin))
		h.ok(h.Groups.ChangeMembers(ctx, "kids", map[int64]bool{h.otto.ID: false}, h.byAnna()))
		if _, u, groups, err = h.Tokens.TokenVisitor(ctx, secrets.Hash(text)); err != nil || u.Role != user.Admin || len(groups) != 0 {
			h.Errorf("after a change: %+v in %q, %v", u, groups, err)
		}
	})
}

func TestToken_ThatEndedIsInvalid(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		h.invalid("unknown", secrets.Hash(token.New()))
		h.invalid("empty", "")

		byOwner, hash := h.newToken(h.otto.ID, "photos")
		h.ok(h.Tokens.RevokeToken(ctx, byOwner.ID, h.otto.ID))
		h.invalid("revoked by its user", hash)
		byAdmin, hash := h.newToken(h.otto.ID, "photos")
		h.ok(h.Tokens.RevokeToken(ctx, byAdmin.ID, h.anna.ID))
		h.invalid("revoked by an admin", hash)
		byOperator, hash := h.newToken(h.anna.ID, "photos")
		h.ok(h.Tokens.RevokeToken(ctx, byOperator.ID, user.Operator))
		h.ok(h.Tokens.RevokeToken(ctx, byOperator.ID, user.Operator))
		h.invalid("revoked by the operator", hash)

		kept, keptHash := h.newToken(h.anna.ID, "photos")
		_, first := h.newToken(h.otto.ID, "photos")
		_, second := h.newToken(h.otto.ID, "photos")
		if n, err := h.Tokens.RevokeTokens(ctx, h.otto.ID); n != 2 || err != nil {
			h.Errorf("revoked %d, %v", n, err)
		}
		h.invalid("revoked with all", first)
		h.invalid("revoked with all", second)
		h.refused("a revocation by another member", h.Tokens.RevokeToken(ctx, kept.ID, h.otto.ID), token.ErrNotFound)
		h.refused("a removal by another member", h.Tokens.RemoveToken(ctx, kept.ID, h.otto.ID), token.ErrNotFound)
		h.refused("a revocation of none", h.Tokens.RevokeToken(ctx, 1<<40, h.anna.ID), token.ErrNotFound)
		h.refused("a removal of one that is valid", h.Tokens.RemoveToken(ctx, kept.ID, h.anna.ID), token.ErrActive)
		if _, _, _, err := h.Tokens.TokenVisitor(ctx, keptHash); err != nil {
			h.Errorf("another user's token: %v", err)
		}

		h.ok(h.Tokens.RemoveToken(ctx, byOwner.ID, h.otto.ID))
		if tokens := must(h.Tokens.Tokens(ctx, h.otto.ID))(h.T); len(tokens) != 3 {
			h.Errorf("%d tokens", len(tokens))
		}
		if tokens := must(h.Tokens.Tokens(ctx, 0))(h.T); len(tokens) != 5 || tokens[0].ID < tokens[1].ID {
			h.Errorf("got %+v", tokens)
		}

		_, deleted := h.newToken(h.otto.ID, "photos")
		must(h.Users.Delete(ctx, h.otto.ID, h.byAnna()))(h.T)
		h.invalid("of a deleted user", deleted)

		text := token.New()
		must(h.Tokens.CreateToken(ctx, token.Token{UserID: h.anna.ID, Name: "x", Applications: []string{"photos"}, ExpiresAt: h.now.Add(time.Minute)}, secrets.Hash(text), h.byAnna()))(h.T)
		h.now = h.now.Add(time.Minute)
		h.invalid("expired", secrets.Hash(text))
	})
}

// TestToken_ANewApplicationIsNotTheOneOfItsSlug also checks that a token may have no
// application left.
func TestToken_ANewApplicationIsNotTheOneOfItsSlug(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		_, hash := h.newToken(h.otto.ID, "photos")
		h.ok(h.Applications.RemoveApplication(ctx, "photos", h.byAnna()))
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		if got, _, _, err := h.Tokens.TokenVisitor(ctx, hash); err != nil || len(got.Applications) != 0 {
			h.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestToken_WithoutApplicationOrUserIsNotCreated(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		closed := app("closed")
		closed.Tokens = false
		h.ok(h.Applications.CreateApplication(ctx, closed, application.Icon{}, h.byAnna()))
		before := h.events()
		create := func(userID, by int64, slugs ...string) error {
			_, err := h.Tokens.CreateToken(ctx, token.Token{UserID: userID, Name: "x", Applications: slugs}, secrets.Hash(token.New()), h.session(by))
			return err
		}
		h.refused("for an unknown application", create(h.otto.ID, h.otto.ID, "photos", "nothing"), token.ErrScope)
		h.refused("for one that accepts none", create(h.otto.ID, h.otto.ID, "photos", "closed"), token.ErrScope)
		h.refused("for another user, by a member", create(h.anna.ID, h.otto.ID, "photos"), user.ErrNotAdmin)
		h.refused("for no user", create(1<<40, h.anna.ID, "photos"), user.ErrNotFound)
		if tokens := must(h.Tokens.Tokens(ctx, 0))(h.T); len(tokens) != 0 {
			h.Errorf("created are %+v", tokens)
		}
		if got := h.events(); !slices.Equal(got, before) {
			h.Errorf("recorded %q", got[len(before):])
		}
	})
}

func TestToken_AUserHasABoundedNumber(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.ok(h.Applications.CreateApplication(h.Context(), app("photos"), application.Icon{}, h.byAnna()))
		otto := h.byOtto()
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error {
			_, err := s.Tokens.CreateToken(h.Context(), token.Token{UserID: h.otto.ID, Name: "x", Applications: []string{"photos"}}, secrets.Hash(token.New()), otto)
			return err
		}, token.ErrTooMany); n != token.MaxPerUser {
			h.Errorf("%d tokens were created", n)
		}
		h.newToken(h.anna.ID, "photos")
	})
}

// TestToken_AnEndedSessionCreatesNone has many tokens under way while the sessions of their creator end. Both record
// their event while they hold the lock of the creator's row, so that its id tells which came first.
func TestToken_AnEndedSessionCreatesNone(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		create := func(s *sqlstore.Stores, by session.Session) error {
			t := token.Token{UserID: h.otto.ID, Name: "x", Applications: []string{"photos"}}
			_, err := s.Tokens.CreateToken(ctx, t, secrets.Hash(token.New()), by)
			return err
		}
		for what, id := range map[string]int64{"their user": h.otto.ID, "an admin": h.anna.ID} {
			ended, kept := h.session(id), h.session(id)
			kept.Key = "kept"
			seen := len(h.events())
			h.atOnce(func(s *sqlstore.Stores, i int) error {
				if i > 0 {
					return create(s, ended)
				}
				_, err := s.Users.EndOthers(ctx, kept)
				return err
			}, session.ErrNotFound, token.ErrTooMany)
			events := h.events()[seen:]
			if after := events[slices.Index(events, "sessions_ended")+1:]; len(after) > 0 {
				h.Errorf("by %s: afterwards %d tokens were created", what, len(after))
			}
			h.exec(`DELETE FROM app_tokens`)
			h.refused("by "+what, create(h.Stores, ended), session.ErrNotFound)
			h.ok(create(h.Stores, kept))
		}
		h.ok(create(h.Stores, session.Session{}))
	})
}

func TestToken_UseIsRecordedOnceAnHour(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		created, _ := h.newToken(h.otto.ID, "photos")
		used := func() time.Time { return must(h.Tokens.Tokens(ctx, h.otto.ID))(h.T)[0].LastUsedAt }
		if !used().IsZero() {
			h.Errorf("used at %s", used())
		}
		first := h.now
		h.ok(h.Tokens.TokenUsed(ctx, created.ID))
		h.now = first.Add(59 * time.Minute)
		h.ok(h.Tokens.TokenUsed(ctx, created.ID))
		if used().Unix() != first.Unix() {
			h.Errorf("used at %s", used())
		}
		h.now = first.Add(time.Hour)
		h.ok(h.Tokens.TokenUsed(ctx, created.ID))
		if used().Unix() != h.now.Unix() {
			h.Errorf("used at %s", used())
		}
	})
}

func TestToken_IsNotInTheAudit(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("photos"), application.Icon{}, h.byAnna()))
		created, _ := h.newToken(h.otto.ID, "photos")
		h.ok(h.Tokens.RevokeToken(ctx, created.ID, h.otto.ID))
		entries := must(h.Audit.Entries(ctx, everything))(h.T)
		for i, want := range []string{"token_revoked", "token_made"} {
			e := entries[i]
			if e.Event.Name != want || e.SubjectID != h.otto.ID || e.Detail["name"] != "Kalender" || len(e.Detail) != 4 {
				h.Errorf("recorded %+v", e)
			}
		}
	})
}

func TestToken_OnesThatEndedLongAgoAreSwept(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Applications.CreateApplication(ctx, app("dav"), application.Icon{}, h.byAnna()))
		endless, _ := h.newToken(h.otto.ID, "dav")
		revoked, _ := h.newToken(h.otto.ID, "dav")
		later, _ := h.newToken(h.otto.ID, "dav")
		var expired token.Token
		for _, end := range []time.Duration{time.Hour, 2 * time.Hour} {
			expired = must(h.Tokens.CreateToken(ctx, token.Token{UserID: h.otto.ID, Name: "x", Applications: []string{"dav"}, ExpiresAt: h.now.Add(end)}, token.New(), h.byOtto()))(h.T)
		}
		h.ok(h.Tokens.RevokeToken(ctx, revoked.ID, h.otto.ID))
		h.now = h.now.Add(2 * time.Hour)
		h.ok(h.Tokens.RevokeToken(ctx, later.ID, h.otto.ID))
		if n := must(h.Tokens.SweepTokens(ctx, h.now))(h.T); n != 2 {
			h.Errorf("swept %d", n)
		}
		var left []int64
		for _, t := range must(h.Tokens.Tokens(ctx, h.otto.ID))(h.T) {
			left = append(left, t.ID)
		}
		if !slices.Equal(left, []int64{expired.ID, later.ID, endless.ID}) {
			h.Errorf("left are %v", left)
		}
	})
}
