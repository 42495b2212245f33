package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"

	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// household is a database with an admin and a member, opened by two processes, and a
// clock that can be moved.
type household struct {
	*testing.T
	*sqlstore.Stores
	other      *sqlstore.Stores
	db         *sqldb.DB
	now        time.Time
	anna, otto user.User
}

// inHouseholds runs a test on SQLite and Postgres.
func inHouseholds(t *testing.T, test func(*household)) {
	t.Helper()
	for name, fresh := range map[string]func(testing.TB) string{"SQLite": sqldbtest.SQLite, "Postgres": sqldbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			h := emptyHousehold(t, fresh)
			h.anna = must(h.Users.Create(t.Context(), person("anna", user.Admin), session.Session{}))(t)
			h.otto = must(h.Users.Create(t.Context(), person("otto", user.Member), session.Session{}))(t)
			test(h)
		})
	}
}

func emptyHousehold(t *testing.T, fresh func(testing.TB) string) *household {
	t.Helper()
	url := fresh(t)
	if url == "" {
		t.Skip("not installed")
	}
	h := &household{T: t, now: start}
	clock := func() time.Time { return h.now }
	h.db = open(t, url)
	h.Stores, h.other = sqlstore.New(h.db, clock, nil), sqlstore.New(open(t, url), clock, nil)
	return h
}

// exec changes the database as no method does.
func (h *household) exec(query string, args ...any) {
	h.Helper()
	must(h.db.Writer.ExecContext(h.Context(), h.db.Rebind(query), args...))(h.T)
}

func (h *household) link(l link.Link, by int64) string {
	h.Helper()
	token := secrets.New()
	must(h.Links.CreateLink(h.Context(), l, secrets.Hash(token), h.session(by)))(h.T)
	return secrets.Hash(token)
}

// session is a live session of a user, or none for user.Operator.
func (h *household) session(id int64) session.Session {
	h.Helper()
	if id == user.Operator {
		return session.Session{}
	}
	return session.Session{Ref: session.Ref{UserID: id, Key: "key"}, Stamp: must(h.Users.ByID(h.Context(), id))(h.T).SessionStamp}
}

func (h *household) byAnna() session.Session { return h.session(h.anna.ID) }
func (h *household) byOtto() session.Session { return h.session(h.otto.ID) }

func (h *household) invite() string {
	return h.link(link.Link{Kind: link.Invite, Role: "member"}, h.anna.ID)
}

func (h *household) reset() string {
	return h.link(link.Link{Kind: link.Reset, Role: "member", UserID: h.otto.ID}, h.anna.ID)
}

// atOnce runs do 100 times at the same moment, on both processes, and returns how many
// calls succeeded; the others must have returned one of refusals.
func (h *household) atOnce(do func(*sqlstore.Stores, int) error, refusals ...error) int {
	h.Helper()
	errs, gate := make([]error, atOnce), make(chan struct{})
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			<-gate
			errs[i] = do([]*sqlstore.Stores{h.Stores, h.other}[i%2], i)
		})
	}
	close(gate)
	all.Wait()
	return (&suite{T: h.T}).count(errs, refusals...)
}

func TestLink_IsUsedOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		invite, reset := h.invite(), h.reset()
		if n := h.atOnce(func(s *sqlstore.Stores, i int) error {
			_, err := s.Links.Join(h.Context(), invite, person("paul"+string(rune('a'+i%26))+string(rune('a'+i/26)), user.Member), nil)
			return err
		}, link.ErrInvalid); n != 1 {
			h.Errorf("an invite was accepted %d times", n)
		}
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error {
			_, err := s.Links.ResetByLink(h.Context(), reset, "new")
			return err
		}, link.ErrInvalid); n != 1 {
			h.Errorf("a reset was used %d times", n)
		}
		if users := must(h.Users.List(h.Context()))(h.T); len(users) != 3 {
			h.Errorf("%d users", len(users))
		}
	})
}

func TestSetUp_OfManyAtOnceOneCreatesTheAdmin(t *testing.T) {
	for name, fresh := range map[string]func(testing.TB) string{"SQLite": sqldbtest.SQLite, "Postgres": sqldbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			h := emptyHousehold(t, fresh)
			hash := h.link(link.Link{Kind: link.Setup, Role: "admin"}, user.Operator)
			n := h.atOnce(func(s *sqlstore.Stores, i int) error {
				_, err := s.Links.Setup(h.Context(), hash, person("admin"+string(rune('a'+i%26)), user.Admin), nil, "Familie Berg")
				return err
			}, link.ErrInvalid, user.ErrNotEmpty)
			users := must(h.Users.List(t.Context()))(t)
			if n != 1 || len(users) != 1 || users[0].Role != user.Admin {
				t.Errorf("%d succeeded; users: %+v", n, users)
			}
			if household := must(h.Users.Household(t.Context()))(t); household.Name != "Familie Berg" {
				t.Errorf("got %+v", household)
			}
			if _, err := h.Links.CreateLink(t.Context(), link.Link{Kind: link.Setup, Role: "admin"}, "another", session.Session{}); !errors.Is(err, user.ErrNotEmpty) {
				t.Errorf("another set-up link: %v", err)
			}
		})
	}
}

// TestLink_ThatIsNotOpenIsRefused checks looking at it and using it.
func TestLink_ThatIsNotOpenIsRefused(t *testing.T) {
	ctx := context.Background()
	inHouseholds(t, func(h *household) {
		refused := func(what string, kind link.Kind, hash string) {
			h.Helper()
			if l, err := h.Links.Link(ctx, kind, hash); !errors.Is(err, link.ErrInvalid) {
				h.Errorf("%s, looked at: %+v, %v", what, l, err)
			}
			var err error
			if kind == link.Invite {
				_, err = h.Links.Join(ctx, hash, person("paul", user.Member), nil)
			} else {
				_, err = h.Links.ResetByLink(ctx, hash, "new")
			}
			if !errors.Is(err, link.ErrInvalid) {
				h.Errorf("%s, used: %v", what, err)
			}
		}
		refused("an unknown invite", link.Invite, secrets.Hash("x"))
		refused("an invite as a reset", link.Reset, h.invite())
		refused("a reset as an invite", link.Invite, h.reset())

		older := h.reset()
		h.reset()
		refused("an older reset", link.Reset, older)

		changed := h.reset()
		must(h.Users.SetPasswordHash(ctx, h.kept(), h.otto.PasswordHash, "another"))(h.T)
		refused("a reset after the password changed", link.Reset, changed)
		changed = h.reset()
		must(h.Users.ResetPassword(ctx, h.otto.ID, "yet another"))(h.T)
		refused("a reset after the operator set a password", link.Reset, changed)

		revoked := h.invite()
		invites := must(h.Links.Invites(ctx))(h.T)
		if err := h.Links.RevokeInvite(ctx, invites[0].ID, h.anna.ID); err != nil {
			h.Error(err)
		}
		refused("a revoked invite", link.Invite, revoked)
		if err := h.Links.RevokeInvite(ctx, invites[0].ID, h.anna.ID); !errors.Is(err, link.ErrNotFound) {
			h.Errorf("revoked again: %v", err)
		}

		invite, reset := h.invite(), h.reset()
		h.now = start.Add(link.Reset.Lifetime())
		refused("an expired reset", link.Reset, reset)
		if _, err := h.Links.Link(ctx, link.Invite, invite); err != nil {
			h.Errorf("an invite after an hour: %v", err)
		}
		h.now = start.Add(link.Invite.Lifetime())
		refused("an expired invite", link.Invite, invite)
		if invites := must(h.Links.Invites(ctx))(h.T); len(invites) != 0 {
			h.Errorf("open invites: %+v", invites)
		}

		invite = h.invite()
		must(h.Users.Create(ctx, person("berta", user.Admin), session.Session{}))(h.T)
		if err := h.Users.SetRole(ctx, h.anna.ID, user.Member); err != nil {
			h.Error(err)
		}
		refused("the invite of somebody who is no admin any more", link.Invite, invite)
		if u := must(h.Users.ByID(ctx, h.otto.ID))(h.T); u.PasswordHash != "yet another" {
			h.Errorf("the password hash is %q", u.PasswordHash)
		}
	})
}

// TestLinks_EndWithTheRightToCreateThem has the right come back afterwards.
func TestLinks_EndWithTheRightToCreateThem(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		must(h.Users.Create(ctx, person("berta", user.Admin), session.Session{}))(h.T)
		member, id := user.Member, h.anna.ID
		ended := func(_ user.Revocation, err error) error { return err }
		for name, end := range map[string]func() error{
			"demoted by the operator": func() error { return h.Users.SetRole(ctx, id, user.Member) },
			"demoted by an admin": func() error {
				return h.Users.Change(ctx, id, user.Change{Role: &member}, h.session(id))
			},
			"a new password": func() error {
				u := must(h.Users.ByID(ctx, id))(h.T)
				return ended(h.Users.SetPasswordHash(ctx, sessionOf(u, "key"), u.PasswordHash, "new"))
			},
			"a reset by the operator": func() error { return ended(h.Users.ResetPassword(ctx, id, "reset")) },
			"a reset by a link": func() error {
				return ended(h.Links.ResetByLink(ctx, h.link(link.Link{Kind: link.Reset, Role: "member", UserID: id}, user.Operator), "reset"))
			},
			"all sessions ended": func() error { return ended(h.Users.EndSessions(ctx, id, session.Session{})) },
			"the other sessions ended": func() error {
				return ended(h.Users.EndOthers(ctx, sessionOf(must(h.Users.ByID(ctx, id))(h.T), "key")))
			},
			"a reset of the factor": func() error { return ended(h.Factors.ResetFactor(ctx, id, session.Session{})) },
		} {
			links := map[link.Kind]string{link.Invite: h.invite(), link.Reset: h.reset()}
			operators := h.link(link.Link{Kind: link.Invite, Role: "member"}, user.Operator)
			if err := end(); err != nil {
				h.Fatalf("%s: %v", name, err)
			}
			if err := h.Users.SetRole(ctx, id, user.Admin); err != nil {
				h.Fatal(err)
			}
			for kind, hash := range links {
				if _, err := h.Links.Link(ctx, kind, hash); !errors.Is(err, link.ErrInvalid) {
					h.Errorf("%s: a link of the kind %s: %v", name, kind, err)
				}
			}
			if _, err := h.Links.Link(ctx, link.Invite, operators); err != nil {
				h.Errorf("%s: an invite of the operator: %v", name, err)
			}
		}
	})
}

// TestLinks_AnEndedSessionCreatesNone has many links under way while the sessions of their admin end.
func TestLinks_AnEndedSessionCreatesNone(t *testing.T) {
	inHouseholds(t, func(h *household) {
		invite := link.Link{Kind: link.Invite, Role: "admin"}
		reset := link.Link{Kind: link.Reset, Role: "member", UserID: h.otto.ID}
		ended, kept := h.byAnna(), h.byAnna()
		kept.Key = "kept"
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			if i == atOnce/2 {
				_, err := s.Users.EndOthers(h.Context(), kept)
				return err
			}
			_, err := s.Links.CreateLink(h.Context(), invite, secrets.Hash(fmt.Sprint(i)), ended)
			return err
		}, session.ErrNotFound)
		if open := must(h.Links.Invites(h.Context()))(h.T); len(open) > 0 {
			h.Errorf("%d invites are open", len(open))
		}
		for _, l := range []link.Link{invite, reset} {
			_, err := h.Links.CreateLink(h.Context(), l, "a "+string(l.Kind), ended)
			h.refused("a link of the kind "+string(l.Kind), err, session.ErrNotFound)
			must(h.Links.CreateLink(h.Context(), l, "b "+string(l.Kind), kept))(h.T)
		}
	})
}

// TestFormerName_IsGivenByAnAdminAlone also checks that the refused invite stays open.
func TestFormerName_IsGivenByAnAdminAlone(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		free := h.invite()
		lena := must(h.Users.Create(ctx, person("Lena", user.Member), session.Session{}))(h.T)
		must(h.Users.Delete(ctx, lena.ID, h.byAnna()))(h.T)
		for _, name := range []string{"Lena", "lena", "LENA"} {
			_, err := h.Links.Join(ctx, free, person(name, user.Member), nil)
			h.refused("the name "+name, err, user.ErrUsernameFormer)
			h.refused("the name "+name, h.Users.CheckFormer(ctx, name), user.ErrUsernameFormer)
		}
		h.ok(h.Users.CheckFormer(ctx, "len\x00"))
		again := link.Link{Kind: link.Invite, Username: "lena", Role: "member"}
		_, err := h.Links.CreateLink(ctx, again, "unchecked", h.byAnna())
		h.refused("an invite for the name", err, user.ErrUsernameFormer)
		again.Former = true
		must(h.Links.Join(ctx, h.link(again, h.anna.ID), person("x", user.Member), nil))(h.T)
		must(h.Links.Join(ctx, free, person("paul", user.Member), nil))(h.T)

		forPia := h.link(link.Link{Kind: link.Invite, Username: "pia", Role: "member"}, user.Operator)
		pia := must(h.Users.Create(ctx, person("Pia", user.Member), h.byAnna()))(h.T) // AUTH-6.10: any name that no user has
		must(h.Users.Delete(ctx, pia.ID, h.byAnna()))(h.T)
		if _, err := h.Links.Join(ctx, forPia, person("x", user.Member), nil); !errors.Is(err, link.ErrInvalid) {
			h.Errorf("an invite for a name from before the deletion: %v", err)
		}
		pia = must(h.Users.Create(ctx, person("pia", user.Member), h.byAnna()))(h.T)
		must(h.Users.Delete(ctx, pia.ID, h.byAnna()))(h.T)
	})
}

// TestInvite_DecidesRoleAndName also checks that a taken name leaves the invite open.
func TestInvite_DecidesRoleAndName(t *testing.T) {
	inHouseholds(t, func(h *household) {
		named := h.link(link.Link{Kind: link.Invite, Username: "paul", DisplayName: "Paul", Role: "member"}, h.anna.ID)
		free := h.invite()
		if _, err := h.Links.Join(h.Context(), free, person("OTTO", user.Admin), nil); !errors.Is(err, user.ErrUsernameTaken) {
			h.Errorf("a taken name: %v", err)
		}
		u := must(h.Links.Join(h.Context(), free, person("petra", user.Admin), nil))(h.T)
		if u.Role != user.Member || u.Username != "petra" {
			h.Errorf("got %+v", u)
		}
		if u = must(h.Links.Join(h.Context(), named, person("eve", user.Admin), nil))(h.T); u.Role != user.Member || u.Username != "paul" {
			h.Errorf("got %+v", u)
		}
		if _, err := h.Links.CreateLink(h.Context(), link.Link{Kind: link.Invite, Username: "Paul", Role: "member"}, "x", h.byAnna()); !errors.Is(err, user.ErrUsernameTaken) {
			h.Errorf("an invite for a taken name: %v", err)
		}
		if _, err := h.Links.CreateLink(h.Context(), link.Link{Kind: link.Invite, Role: "member"}, "y", h.byOtto()); !errors.Is(err, user.ErrNotAdmin) {
			h.Errorf("an invite by a member: %v", err)
		}
	})
}

// TestLink_ARequestForAPasswordIsOneOfAUser also checks what closes it.
func TestLink_ARequestForAPasswordIsOneOfAUser(t *testing.T) {
	inHouseholds(t, func(h *household) {
		asked := func() int {
			n := 0
			for _, e := range must(h.Audit.Entries(h.Context(), everything))(h.T) {
				if e.Event.Name == "reset_asked" {
					n++
				}
			}
			return n
		}
		h.atOnce(func(s *sqlstore.Stores, _ int) error { return s.Users.AskForReset(h.Context(), "otto") })
		if asked() != 1 || must(h.Details(h.otto.ID))(h.T).ResetAskedAt.IsZero() {
			h.Errorf("%d requests", asked())
		}
		h.reset()
		if !must(h.Details(h.otto.ID))(h.T).ResetAskedAt.IsZero() {
			h.Error("the request is open after a link was created")
		}
		if err := h.Users.AskForReset(h.Context(), "nobody"); !errors.Is(err, user.ErrNotFound) {
			h.Errorf("an unknown name: %v", err)
		}
	})
}

// Details returns a user as admins see them.
func (h *household) Details(id int64) (user.Details, error) { return h.Users.Member(h.Context(), id) }

// TestLink_IsTheSameWhenItsTransactionRunsAgain has Postgres end each transaction once, at
// its audit row.
func TestLink_IsTheSameWhenItsTransactionRunsAgain(t *testing.T) {
	h := emptyHousehold(t, sqldbtest.Postgres)
	h.anna = must(h.Users.Create(t.Context(), person("anna", user.Admin), session.Session{}))(t)
	h.otto = must(h.Users.Create(t.Context(), person("otto", user.Member), session.Session{}))(t)
	h.exec(`CREATE SEQUENCE runs`)
	h.exec(`CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('runs') % 2 = 1 THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF;
		RETURN NEW; END $$`)
	h.exec(`CREATE TRIGGER again BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION again()`)
	h.reset()
	h.invite()
	rows, err := h.db.Reader.QueryContext(t.Context(), `SELECT kind || ':' || username || ':' || display_name FROM links ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"reset::", "invite::"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// TestInvite_TellsWhomItCreated also has an invite end in other ways.
func TestInvite_TellsWhomItCreated(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		hash := h.link(link.Link{Kind: link.Invite, Role: "member", DisplayName: "Mia"}, h.anna.ID)
		open := must(h.Links.Link(ctx, link.Invite, hash))(h.T)
		if l, err := h.Links.Invite(ctx, open.ID); err != nil || l.DisplayName != "Mia" || !l.UsedAt.IsZero() {
			h.Errorf("an open one: %+v, %v", l, err)
		}
		mia := must(h.Links.Join(ctx, hash, person("mia", user.Member), nil))(h.T)
		for what, look := range map[string]func() (link.Link, error){
			"by its id":    func() (link.Link, error) { return h.Links.Invite(ctx, open.ID) },
			"by its token": func() (link.Link, error) { return h.Links.Link(ctx, link.Invite, hash) },
		} {
			if l, err := look(); !errors.Is(err, link.ErrUsed) || l.UserID != mia.ID || l.Username != "mia" || l.UsedAt.IsZero() {
				h.Errorf("a used one, %s: %+v, %v", what, l, err)
			}
		}
		_, err := h.Links.Join(ctx, hash, person("eve", user.Member), nil)
		h.refused("a second use", err, link.ErrUsed)
		must(h.Users.Delete(ctx, mia.ID, h.byAnna()))(h.T)
		_, err = h.Links.Invite(ctx, open.ID)
		h.refused("one whose user is gone", err, link.ErrNotFound)
		_, err = h.Links.Invite(ctx, 99)
		h.refused("an unknown one", err, link.ErrNotFound)
	})
}

func TestReset_RequestIsDismissedByAnAdmin(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.ok(h.Users.AskForReset(ctx, "otto"))
		h.refused("a member", h.Users.DismissReset(ctx, h.otto.ID, h.otto.ID), user.ErrNotAdmin)
		h.refused("an unknown user", h.Users.DismissReset(ctx, 99, h.anna.ID), user.ErrNotFound)
		if m := must(h.Users.Member(ctx, h.otto.ID))(h.T); m.ResetAskedAt.IsZero() {
			h.Error("the request is gone")
		}
		for range 2 {
			h.ok(h.Users.DismissReset(ctx, h.otto.ID, h.anna.ID))
		}
		if m := must(h.Users.Member(ctx, h.otto.ID))(h.T); !m.ResetAskedAt.IsZero() {
			h.Error("the request is still there")
		}
	})
}

// TestReset_LocksTheUserBeforeTheLinks has another transaction hold the user's row, and change the links once the reset
// waits for the row: as a new password does, which makes them void.
func TestReset_LocksTheUserBeforeTheLinks(t *testing.T) {
	h := emptyHousehold(t, sqldbtest.Postgres)
	h.anna = must(h.Users.Create(t.Context(), person("anna", user.Admin), session.Session{}))(t)
	h.otto = must(h.Users.Create(t.Context(), person("otto", user.Member), session.Session{}))(t)
	anna := h.byAnna()
	for what, do := range map[string]func(string) error{
		"a new link": func(string) error {
			l := link.Link{Kind: link.Reset, Role: "member", UserID: h.otto.ID}
			_, err := h.other.Links.CreateLink(t.Context(), l, "another", anna)
			return err
		},
		"a reset": func(hash string) error { _, err := h.other.Links.ResetByLink(t.Context(), hash, "new"); return err },
	} {
		hash := h.reset()
		tx := must(h.db.Writer.BeginTx(t.Context(), nil))(t)
		must(tx.ExecContext(t.Context(), `SELECT 1 FROM users WHERE id = $1 FOR UPDATE`, h.otto.ID))(t)
		done := make(chan error, 1)
		go func() { done <- do(hash) }()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			if len(done) > 0 {
				t.Fatalf("%s does not wait: %v", what, <-done)
			}
			h.ok(h.db.Reader.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits))
		}
		must(tx.ExecContext(t.Context(), `SET LOCAL lock_timeout = '100ms'`))(t)
		if _, err := tx.ExecContext(t.Context(), `UPDATE links SET role = role WHERE user_id = $1`, h.otto.ID); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		h.ok(tx.Rollback())
		h.ok(<-done)
	}
}
