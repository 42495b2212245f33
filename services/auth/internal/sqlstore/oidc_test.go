package sqlstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// client returns the client of an application, as it is created.
func client(slug string) oidc.Client {
	return oidc.Client{
		Slug: slug, ID: slug, Alg: oidc.RS256, PKCE: oidc.Auto, Groups: oidc.GroupsAsked, Email: true,
		Redirects: []string{"https://" + slug + ".example.org/a", "https://" + slug + ".example.org/b"}, AfterLogout: []string{"https://" + slug + ".example.org/"},
		LogoutURI: "https://" + slug + ".example.org/logout",
	}
}

// withClient creates an application with a client, and returns the client as stored.
func (h *household) withClient(slug string) oidc.Client {
	h.Helper()
	h.ok(h.Applications.CreateApplication(h.Context(), app(slug), application.Icon{}, h.byAnna()))
	c := client(slug)
	_, secret := oidc.NewSecret()
	c.Secrets = []oidc.Secret{secret}
	h.ok(h.Clients.CreateClient(h.Context(), c, "https://home.example.org/pforte", h.byAnna()))
	return h.client(slug)
}

func (h *household) client(slug string) oidc.Client {
	h.Helper()
	for _, c := range must(h.Clients.Clients(h.Context()))(h.T) {
		if c.Slug == slug {
			return c
		}
	}
	h.Fatalf("no client %s", slug)
	return oidc.Client{}
}

// grant returns a grant of a user for a client that is not stored yet.
func (h *household) grant(c oidc.Client, u user.User, login string) oidc.Grant {
	h.Helper()
	p, _, err := h.Grants.Person(h.Context(), u.ID, c.ApplicationID)
	h.ok(err)
	return oidc.Grant{
		ID: oidc.NewGrantID(), ApplicationID: c.ApplicationID, UserID: u.ID, Login: login, Stamp: p.User.SessionStamp, Scopes: []string{"openid", "email"},
		AuthTime: h.now.UTC().Truncate(time.Second), Factor: session.Password,
	}
}

// granted stores a grant.
func (h *household) granted(c oidc.Client, u user.User, login string) oidc.Held {
	h.Helper()
	held, err := h.Grants.CreateGrant(h.Context(), h.grant(c, u, login))
	h.ok(err)
	return held
}

func TestClient_IsStoredWhole(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.refused("of no application", h.Clients.CreateClient(ctx, client("photos"), "x", h.byAnna()),
			application.ErrNotFound)
		if issuer := must(h.Clients.Issuer(ctx))(h.T); issuer != "" {
			t.Errorf("the issuer is %q", issuer)
		}
		got := h.withClient("photos")
		want := client("photos")
		want.ApplicationID, want.Name, want.CreatedAt, want.Secrets = got.ApplicationID, got.Name, h.now.UTC().Truncate(time.Second), got.Secrets
		if diff := cmp.Diff(want, got); diff != "" || len(got.Secrets) != 1 {
			t.Errorf("differs (-want +got):\n%s", diff)
		}
		h.refused("a second time", h.Clients.CreateClient(ctx, client("photos"), "x", h.byAnna()), oidc.ErrIsClient)
		h.refused("by a member", h.Clients.RemoveClient(ctx, "photos", h.byOtto()), user.ErrNotAdmin)
		h.withClient("notes")
		if issuer := must(h.Clients.Issuer(ctx))(h.T); issuer != "https://home.example.org/pforte" {
			t.Errorf("the issuer is %q", issuer)
		}
		h.refused("with another's id", h.Clients.ChangeClient(ctx, "notes", func(c *oidc.Client) error { c.ID = "photos"; return nil }, h.byAnna()), oidc.ErrIDTaken)
		h.ok(h.Clients.ChangeClient(ctx, "notes", func(c *oidc.Client) error {
			c.Redirects, c.AfterLogout, c.Alg, c.Offline = []string{"app.notes:///cb"}, nil, oidc.ES256, true
			return nil
		}, h.byAnna()))
		if c := h.client("notes"); len(c.Redirects) != 1 || len(c.AfterLogout) != 0 || c.Alg != oidc.ES256 || !c.Offline || len(c.Secrets) != 1 {
			t.Errorf("changed is %+v", c)
		}
		_, second := oidc.NewSecret()
		h.ok(h.Clients.AddSecret(ctx, "notes", second, h.byAnna()))
		h.refused("a third secret", h.Clients.AddSecret(ctx, "notes", second, h.byAnna()), oidc.ErrManySecret)
		h.refused("another's secret", h.Clients.RemoveSecret(ctx, "notes", got.Secrets[0].ID, h.byAnna()), oidc.ErrNoSecret)
		h.ok(h.Clients.RemoveSecret(ctx, "notes", h.client("notes").Secrets[0].ID, h.byAnna()))
		h.ok(h.Clients.SecretUsed(ctx, h.client("notes").Secrets[0].ID))
		if c := h.client("notes"); len(c.Secrets) != 1 || c.Secrets[0].Hash != second.Hash || c.Secrets[0].LastUsedAt.IsZero() {
			t.Errorf("secrets are %+v", c.Secrets)
		}
		h.ok(h.Clients.RequirePKCE(ctx, h.client("notes").ApplicationID))
		h.ok(h.Clients.ChangeClient(ctx, "notes", func(c *oidc.Client) error { c.Public = true; return nil }, h.byAnna()))
		if c := h.client("notes"); c.PKCE != oidc.Required || !c.Public || len(c.Secrets) != 0 {
			t.Errorf("public is %+v", c)
		}
		h.refused("a public one's secret", h.Clients.AddSecret(ctx, "notes", second, h.byAnna()), oidc.ErrPublic)
		h.ok(h.Clients.RemoveClient(ctx, "notes", h.byAnna()))
		h.refused("again", h.Clients.RemoveClient(ctx, "notes", h.byAnna()), oidc.ErrNoClient)
		h.ok(h.Clients.SetIssuer(ctx, "https://new.example.org/pforte", h.byAnna()))
		if issuer := must(h.Clients.Issuer(ctx))(h.T); issuer != "https://new.example.org/pforte" {
			t.Errorf("the issuer is %q", issuer)
		}
	})
}

func TestClient_ASecretMoreIsNotAddedByManyAtOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.withClient("photos")
		if n := h.atOnce(func(s *sqlstore.Stores, _ int) error {
			_, secret := oidc.NewSecret()
			return s.Clients.AddSecret(h.Context(), "photos", secret, h.byAnna())
		}, oidc.ErrManySecret); n != 1 {
			t.Errorf("%d were added", n)
		}
	})
}

func TestGrant_HoldsWhatItWasMadeOf(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.withClient("photos")
		h.ok(h.Groups.CreateGroup(h.Context(), "kids", "Kinder", []int64{h.otto.ID}, h.byAnna()))
		g := h.grant(c, h.otto, "l1")
		g.Offline, g.Factor = true, session.PasswordWithTOTP
		made := must(h.Grants.CreateGrant(h.Context(), g))(h.T)
		got := must(h.Grants.Held(h.Context(), g.ID))(h.T)
		g.CreatedAt, g.LastUsedAt = h.now.UTC().Truncate(time.Second), h.now.UTC().Truncate(time.Second)
		if diff := cmp.Diff(g, got.Grant); diff != "" {
			t.Errorf("differs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(made, got); diff != "" {
			t.Errorf("differs from what was made (-want +got):\n%s", diff)
		}
		if p := got.Person; p.User.Username != "otto" || len(p.Subject) != 36 || len(p.Groups) != 1 || got.Client.ID != "photos" {
			t.Errorf("got %+v of %+v", p, got.Client)
		}
		second := h.grant(c, h.otto, "l2")
		must(h.Grants.CreateGrant(h.Context(), second))(h.T)
		if n := strings.Count(fmt.Sprint(h.events()), "oidc_first_login"); n != 1 {
			t.Errorf("%d notices", n)
		}
		if other := must(h.Grants.Connections(h.Context(), h.otto.ID, c.ApplicationID+1))(h.T); len(other) != 0 {
			t.Errorf("at another application: %+v", other)
		}
		connections := must(h.Grants.Connections(h.Context(), h.otto.ID, c.ApplicationID))(h.T)
		if len(connections) != 2 || connections[0].Slug != "photos" || connections[0].Username != "otto" {
			t.Errorf("got %+v", connections)
		}
		h.refused("by another member", h.Grants.EndConnection(h.Context(), g.ID, h.withMember("lena").ID), oidc.ErrNoConnection)
		h.ok(h.Grants.EndConnection(h.Context(), g.ID, h.otto.ID))
		h.ok(h.Grants.EndConnection(h.Context(), second.ID, h.anna.ID))
		h.refused("unknown", h.Grants.EndConnection(h.Context(), "x", h.anna.ID), oidc.ErrNoConnection)
		if all := must(h.Grants.Connections(h.Context(), 0, 0))(h.T); len(all) != 0 {
			t.Errorf("left: %+v", all)
		}
	})
}

func (h *household) withMember(name string) user.User {
	h.Helper()
	return must(h.Users.Create(h.Context(), person(name, user.Member), session.Session{}))(h.T)
}

// ends is what ends a grant of otto's for "photos", whose login is "l1", or a code under way.
var ends = map[string]func(h *household, c oidc.Client) error{
	"deletion": func(h *household, _ oidc.Client) error {
		_, err := h.Users.Delete(h.Context(), h.otto.ID, h.byAnna())
		return err
	},
	"new stamp": func(h *household, _ oidc.Client) error {
		_, err := h.Users.EndSessions(h.Context(), h.otto.ID, session.Session{})
		return err
	},
	"disabling": func(h *household, _ oidc.Client) error {
		_, err := h.Users.Disable(h.Context(), h.otto.ID, h.byAnna())
		return err
	},
	"leaving the group": func(h *household, _ oidc.Client) error {
		return h.Groups.ChangeMembers(h.Context(), "kids", map[int64]bool{h.otto.ID: false}, h.byAnna())
	},
	"another rule": func(h *household, _ oidc.Client) error {
		return h.Applications.ChangeApplication(h.Context(), "photos", func(a *application.Application) error {
			a.Rule, a.Group = application.Admin, ""
			return nil
		}, h.byAnna())
	},
	"second factor": func(h *household, _ oidc.Client) error {
		return h.Applications.ChangeApplication(h.Context(), "photos", func(a *application.Application) error {
			a.SecondFactor = true
			return nil
		}, h.byAnna())
	},
	"no client any more": func(h *household, _ oidc.Client) error {
		return h.Clients.RemoveClient(h.Context(), "photos", h.byAnna())
	},
	"no application any more": func(h *household, _ oidc.Client) error {
		return h.Applications.RemoveApplication(h.Context(), "photos", h.byAnna())
	},
}

// forKids creates "photos" with a client, for the group of otto.
func (h *household) forKids() oidc.Client {
	h.Helper()
	h.ok(h.Groups.CreateGroup(h.Context(), "kids", "Kinder", []int64{h.otto.ID}, h.byAnna()))
	c := h.withClient("photos")
	h.ok(h.Applications.ChangeApplication(h.Context(), "photos", func(a *application.Application) error {
		a.Rule, a.Group, a.SecondFactor = application.Group, "kids", false
		return nil
	}, h.byAnna()))
	return c
}

func TestGrant_EndsWithWhatItRestsOn(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inHouseholds(t, func(h *household) {
				c := h.forKids()
				held, pending := h.granted(c, h.otto, "l1"), h.grant(c, h.otto, "l1")
				must(h.Grants.Held(h.Context(), held.ID))(h.T)
				h.ok(end(h, c))
				for _, s := range []*sqlstore.Stores{h.Stores, h.other} {
					_, err := s.Grants.Held(h.Context(), held.ID)
					h.refused("the grant", err, oidc.ErrGrantEnded)
					_, err = s.Grants.CreateGrant(h.Context(), pending)
					h.refused("the code under way", err, oidc.ErrNotAdmitted)
				}
			})
		})
	}
}

func TestGrant_EndedLoginGetsNone(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.forKids()
		h.exec(`INSERT INTO oidc_ended_logins (login, ended_at) VALUES ('l1', ?)`, h.now.Unix())
		_, err := h.Grants.CreateGrant(h.Context(), h.grant(c, h.otto, "l1"))
		h.refused("of a login that has ended", err, oidc.ErrNotAdmitted)
		h.granted(c, h.otto, "l2")
		h.now = h.now.Add(oidc.KeepEndedLogins + time.Second)
		h.ok(h.Grants.SweepGrants(h.Context()))
		h.granted(c, h.otto, "l1")
	})
}

// TestGrant_CodeUnderWayDoesNotOutliveWhatEndsIt has both happen at once, 100 times.
func TestGrant_CodeUnderWayDoesNotOutliveWhatEndsIt(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c, won := h.forKids(), 0
		for i := range 100 {
			g := h.grant(c, h.otto, "l1")
			ended, made := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := h.other.Grants.CreateGrant(h.Context(), g)
				made <- err
			}()
			go func() {
				if i%2 == 0 {
					_, err := h.Users.EndSessions(h.Context(), h.otto.ID, session.Session{})
					ended <- err
					return
				}
				ended <- h.Groups.ChangeMembers(h.Context(), "kids", map[int64]bool{h.otto.ID: false}, h.byAnna())
			}()
			h.ok(<-ended)
			err := <-made
			if err == nil {
				won++
			} else if !errors.Is(err, oidc.ErrNotAdmitted) {
				t.Fatal(err)
			}
			_, err = h.Grants.Held(h.Context(), g.ID)
			h.refused("afterwards", err, oidc.ErrGrantEnded)
			h.ok(h.Groups.ChangeMembers(h.Context(), "kids", map[int64]bool{h.otto.ID: true}, h.byAnna()))
		}
		t.Logf("%d grants came first", won)
	})
}

func TestGrant_LoginHasABoundedNumberAtAnApplication(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.forKids()
		grants := make([]oidc.Grant, 100)
		for i := range grants {
			grants[i] = h.grant(c, h.otto, "l1")
		}
		// They wait for the row of the user, one for the other, and on a busy machine the last ones longer than a store
		// waits: such a one is tried again. It may have been stored all the same, so that the rows tell how many there were.
		n := h.atOnce(func(s *sqlstore.Stores, i int) (err error) {
			for range 10 {
				if _, err = s.Grants.CreateGrant(h.Context(), grants[i]); err == nil {
					return nil
				}
				grants[i].ID = oidc.NewGrantID()
			}
			return err
		})
		var stored, logouts int
		h.ok(h.db.Reader.QueryRowContext(h.Context(), `SELECT count(*) FROM oidc_grants`).Scan(&stored))
		h.ok(h.db.Reader.QueryRowContext(h.Context(), `SELECT count(*) FROM oidc_logouts`).Scan(&logouts))
		if n != len(grants) || stored < n {
			t.Errorf("%d were made, and %d are stored", n, stored)
		}
		if all := must(h.Grants.Connections(h.Context(), h.otto.ID, 0))(h.T); len(all) != oidc.MaxGrantsPerLogin {
			t.Errorf("%d are live", len(all))
		}
		if logouts != stored-oidc.MaxGrantsPerLogin {
			t.Errorf("%d logouts are queued", logouts)
		}
	})
}

func TestGrant_RefreshTokenIsRotatedOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		held := h.granted(h.forKids(), h.otto, "l1")
		rotated := make([]bool, 100)
		h.atOnce(func(s *sqlstore.Stores, i int) (err error) {
			rotated[i], err = s.Grants.Rotate(h.Context(), held.ID, 0)
			return err
		})
		n := 0
		for _, is := range rotated {
			if is {
				n++
			}
		}
		if got := must(h.Grants.Held(h.Context(), held.ID))(h.T); n != 1 || got.Generation != 1 {
			t.Errorf("rotated %d times, to %d", n, got.Generation)
		}
		h.ok(h.Grants.EndGrant(h.Context(), held.ID, oidc.EndedRefresh))
		h.ok(h.Grants.EndGrant(h.Context(), held.ID, oidc.EndedRefresh))
		if rotated := must(h.Grants.Rotate(h.Context(), held.ID, 1))(h.T); rotated {
			t.Error("rotated after its end")
		}
		n = 0
		for _, e := range must(h.Audit.Entries(h.Context(), everything))(h.T) {
			if e.Event.Name == "oidc_refresh_reused" {
				n += int(e.Count)
			}
		}
		if n != 1 {
			t.Errorf("ended %d times", n)
		}
	})
}

// TestGrant_RotationIsOnTheDisk: with the power the machine would lose which refresh token is the current one.
func TestGrant_RotationIsOnTheDisk(t *testing.T) {
	inHouseholds(t, func(h *household) {
		want := "2" // PRAGMA synchronous=FULL
		if h.db.Dialect == sqldb.Postgres {
			want = "on"
			h.exec(`CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN NEW.reason := current_setting('synchronous_commit'); RETURN NEW; END $$`)
			h.exec(`CREATE TRIGGER waits BEFORE UPDATE ON oidc_grants FOR EACH ROW EXECUTE FUNCTION waits()`)
		} else {
			h.exec(`CREATE TRIGGER waits AFTER UPDATE OF generation ON oidc_grants BEGIN
				UPDATE oidc_grants SET reason = (SELECT synchronous FROM pragma_synchronous) WHERE id = NEW.id; END`)
		}
		held := h.granted(h.forKids(), h.otto, "l1")
		if rotated := must(h.Grants.Rotate(h.Context(), held.ID, 0))(h.T); !rotated {
			t.Fatal("not rotated")
		}
		var waits string
		h.ok(h.db.Reader.QueryRowContext(h.Context(), `SELECT reason FROM oidc_grants`).Scan(&waits))
		if waits != want {
			t.Errorf("the commit waits as %q", waits)
		}
	})
}

func TestKeys_ChangeIsOneStep(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.atOnce(func(s *sqlstore.Stores, i int) error {
			return s.Keys.ChangeKeys(h.Context(), false, func(keys []oidc.StoredKey) ([]oidc.StoredKey, error) {
				if len(keys) > 0 {
					return keys, nil
				}
				return []oidc.StoredKey{{ID: fmt.Sprint(i), Alg: oidc.RS256, Sealed: []byte{1, 0, 2}, JWK: "{}", State: oidc.KeyActive, Since: h.now.UTC().Truncate(time.Second)}}, nil
			})
		})
		keys := must(h.Keys.Keys(h.Context()))(h.T)
		if len(keys) != 1 || len(keys[0].Sealed) != 3 || !keys[0].Since.Equal(h.now.Truncate(time.Second)) {
			t.Errorf("got %+v", keys)
		}
	})
}
