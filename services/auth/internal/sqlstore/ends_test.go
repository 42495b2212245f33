package sqlstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// queued are the SIDs of the logouts that wait, in the order in which they came.
func (h *household) queued() (sids []string) {
	h.Helper()
	rows := must(h.db.Reader.QueryContext(h.Context(), `SELECT sid FROM oidc_logouts ORDER BY id`))(h.T)
	defer func() { h.ok(rows.Close()) }()
	for rows.Next() {
		var sid string
		h.ok(rows.Scan(&sid))
		sids = append(sids, sid)
	}
	h.ok(rows.Err())
	return sids
}

// TestEnd_TellsTheApplicationOnce has everything end a grant that core's table of ends knows, and what only users do.
func TestEnd_TellsTheApplicationOnce(t *testing.T) {
	cases := map[string]func(h *household, c oidc.Client) error{
		"logout": func(h *household, _ oidc.Client) error { return h.Users.EndLogin(h.Context(), h.otto.ID, "l1") },
		"others' sessions": func(h *household, _ oidc.Client) error {
			_, err := h.Users.EndOthers(h.Context(), sessionOf(h.present(), "l1"))
			return err
		},
		"new password": func(h *household, _ oidc.Client) error {
			_, err := h.Users.SetPasswordHash(h.Context(), sessionOf(h.present(), "l1"), "hash of otto", "another")
			return err
		},
		"reset password": func(h *household, _ oidc.Client) error {
			_, err := h.Users.ResetPassword(h.Context(), h.otto.ID, "another")
			return err
		},
		"reset factor": func(h *household, _ oidc.Client) error {
			_, err := h.Factors.ResetFactor(h.Context(), h.otto.ID, h.byAnna())
			return err
		},
		"groups of a member": func(h *household, _ oidc.Client) error {
			return h.Users.Change(h.Context(), h.otto.ID, user.Change{Groups: &[]string{}}, h.byAnna())
		},
		"last day": func(h *household, _ oidc.Client) error {
			ends := h.now.Add(time.Hour)
			if err := h.Users.Change(h.Context(), h.otto.ID, user.Change{EndsAt: &ends}, h.byAnna()); err != nil {
				return err
			}
			if err := h.Logouts.EndClosed(h.Context()); err != nil || len(h.queued()) != 0 {
				return fmt.Errorf("before the last day is over: %v, %w", h.queued(), err)
			}
			h.now = h.now.Add(time.Hour)
			return h.Logouts.EndClosed(h.Context())
		},
	}
	for name, end := range ends {
		cases[name] = end
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			inHouseholds(t, func(h *household) {
				c := h.forKids()
				held, pending := h.granted(c, h.otto, "l1"), h.grant(c, h.otto, "l1")
				h.ok(h.Grants.EndGrant(h.Context(), held.ID, oidc.EndedByClient)) // the client asked for it: it is not told
				held = h.granted(c, h.otto, "l1")
				h.exec(`DELETE FROM oidc_logouts`)
				h.ok(end(h, c))
				sids := h.queued()
				n := 0
				for _, sid := range sids {
					if sid == held.ID {
						n++
					}
				}
				if n != 1 {
					t.Errorf("queued %d times: %v", n, sids)
				}
				_, err := h.other.Grants.Held(h.Context(), held.ID)
				h.refused("the grant", err, oidc.ErrGrantEnded)
				_, err = h.other.Grants.CreateGrant(h.Context(), pending)
				h.refused("the code under way", err, oidc.ErrNotAdmitted)
			})
		})
	}
}

// TestEnd_RemovalTellsOfACodeUnderWay has both happen at once: a grant that came first is told of.
func TestEnd_RemovalTellsOfACodeUnderWay(t *testing.T) {
	for name, remove := range map[string]func(h *household, slug string, id int64) error{
		"application": func(h *household, slug string, _ int64) error {
			return h.Applications.RemoveApplication(h.Context(), slug, h.byAnna())
		},
		"client": func(h *household, slug string, _ int64) error {
			return h.Clients.RemoveClient(h.Context(), slug, h.byAnna())
		},
		"user": func(h *household, _ string, id int64) error {
			_, err := h.Users.Delete(h.Context(), id, h.byAnna())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouseholds(t, func(h *household) {
				var made []string
				for i := range 40 {
					slug := fmt.Sprintf("photos-%d", i)
					c, u := h.withClient(slug), h.withMember(fmt.Sprintf("paul%d", i))
					g := h.grant(c, u, "l1")
					created := make(chan error, 1)
					go func() {
						_, err := h.other.Grants.CreateGrant(h.Context(), g)
						created <- err
					}()
					h.ok(remove(h, slug, u.ID))
					if err := <-created; err == nil {
						made = append(made, g.ID)
					} else if !errors.Is(err, oidc.ErrNotAdmitted) {
						t.Fatal(err)
					}
					_ = h.Applications.RemoveApplication(h.Context(), slug, h.byAnna()) // so that there are never too many
				}
				if diff := cmp.Diff(made, h.queued()); diff != "" {
					t.Errorf("made and told of: %s", diff)
				}
				t.Logf("%d grants came first", len(made))
			})
		})
	}
}

func TestEnd_DemotionClosesWhatAdminsMayUse(t *testing.T) {
	for name, demote := range map[string]func(h *household, id int64) error{
		"by an admin": func(h *household, id int64) error {
			member := user.Member
			return h.Users.Change(h.Context(), id, user.Change{Role: &member}, h.byAnna())
		},
		"by a command": func(h *household, id int64) error { return h.Users.SetRole(h.Context(), id, user.Member) },
	} {
		t.Run(name, func(t *testing.T) {
			inHouseholds(t, func(h *household) {
				c := h.withClient("photos")
				h.ok(h.Users.SetRole(h.Context(), h.otto.ID, user.Admin))
				h.ok(h.Applications.ChangeApplication(h.Context(), "photos", func(a *application.Application) error {
					a.Rule, a.Group, a.SecondFactor = application.Admin, "", false
					return nil
				}, h.byAnna()))
				held, annas := h.granted(c, h.otto, "l1"), h.granted(c, h.anna, "l2")
				h.ok(demote(h, h.otto.ID))
				if diff := cmp.Diff([]string{held.ID}, h.queued()); diff != "" {
					t.Error(diff)
				}
				must(h.Grants.Held(h.Context(), annas.ID))(h.T)
			})
		})
	}
}

// TestEnd_LogoutLeavesWhatOutlivesItsLogin: offline_access, and other logins.
func TestEnd_LogoutLeavesWhatOutlivesItsLogin(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.forKids()
		offline := h.grant(c, h.otto, "l1")
		offline.Offline = true
		_, err := h.Grants.CreateGrant(h.Context(), offline)
		h.ok(err)
		other := h.granted(c, h.otto, "l2")
		mine := h.granted(c, h.otto, "l1")
		h.ok(h.Users.EndLogin(h.Context(), h.otto.ID, "l1"))
		must(h.Grants.Held(h.Context(), offline.ID))(h.T)
		must(h.Grants.Held(h.Context(), other.ID))(h.T)
		_, err = h.Grants.Held(h.Context(), mine.ID)
		h.refused("of the login", err, oidc.ErrGrantEnded)
		h.ok(h.Users.EndLogin(h.Context(), 1<<40, "l3")) // a user who is gone
		h.ok(h.Users.EndLogin(h.Context(), h.otto.ID, "l1"))
		if diff := cmp.Diff([]string{mine.ID}, h.queued()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestEnd_LogoutWritesNothingWhereNoApplicationSignsIn: logouts of households without one are as fast as before.
func TestEnd_LogoutWritesNothingWhereNoApplicationSignsIn(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.ok(h.Users.EndLogin(h.Context(), h.otto.ID, "l1"))
		var n int
		h.ok(h.db.Reader.QueryRowContext(h.Context(), `SELECT count(*) FROM oidc_ended_logins`).Scan(&n))
		if n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestEnd_CodeUnderWayDoesNotOutliveALogout has both at once, 100 times.
func TestEnd_CodeUnderWayDoesNotOutliveALogout(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c, won := h.forKids(), 0
		for i := range 100 {
			login := fmt.Sprint("login", i)
			g := h.grant(c, h.otto, login)
			ended, made := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := h.other.Grants.CreateGrant(h.Context(), g)
				made <- err
			}()
			go func() { ended <- h.Users.EndLogin(h.Context(), h.otto.ID, login) }()
			h.ok(<-ended)
			if err := <-made; err == nil {
				won++
			} else if !errors.Is(err, oidc.ErrNotAdmitted) {
				t.Fatal(err)
			}
			_, err := h.Grants.Held(h.Context(), g.ID)
			h.refused("afterwards", err, oidc.ErrGrantEnded)
		}
		if n := len(h.queued()); n != won {
			t.Errorf("%d grants came first, and %d logouts are queued", won, n)
		}
		t.Logf("%d grants came first", won)
	})
}

// TestEnd_ByManyAtOnceTellsOnce has a grant end for different reasons at once.
func TestEnd_ByManyAtOnceTellsOnce(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.forKids()
		for range 10 {
			g := h.granted(c, h.otto, "l1")
			h.exec(`DELETE FROM oidc_logouts`)
			var errs []chan error
			for i, s := range []*sqlstore.Stores{h.Stores, h.other, h.Stores, h.other} {
				done := make(chan error, 1)
				errs = append(errs, done)
				go func() {
					switch i % 4 {
					case 0:
						done <- s.Grants.EndGrant(h.Context(), g.ID, oidc.EndedRefresh)
					case 1:
						done <- s.Users.EndLogin(h.Context(), h.otto.ID, "l1")
					case 2:
						done <- s.Applications.ChangeApplication(h.Context(), "photos", func(a *application.Application) error {
							a.SecondFactor = true
							return nil
						}, h.byAnna())
					default:
						_, err := s.Users.EndSessions(h.Context(), h.otto.ID, session.Session{})
						done <- err
					}
				}()
			}
			for _, done := range errs {
				h.ok(<-done)
			}
			if diff := cmp.Diff([]string{g.ID}, h.queued()); diff != "" {
				t.Error(diff)
			}
			h.ok(h.Applications.ChangeApplication(h.Context(), "photos", func(a *application.Application) error {
				a.SecondFactor = false
				return nil
			}, h.byAnna()))
			h.exec(`DELETE FROM oidc_ended_logins`)
		}
	})
}

// TestEnd_OfTheReleaseBeforeHoldsAtTheNextUse has users deleted, demoted and their sessions ended by its statements, which
// know no grants.
func TestEnd_OfTheReleaseBeforeHoldsAtTheNextUse(t *testing.T) {
	for name, statement := range map[string]string{
		"deletion":  `DELETE FROM users WHERE id = ?`,
		"new stamp": `UPDATE users SET session_stamp = 'x', kept_session = 'l1' WHERE id = ?`,
		"disabling": `UPDATE users SET disabled_at = 1 WHERE id = ?`,
		"group":     `DELETE FROM group_members WHERE user_id = ?`,
	} {
		t.Run(name, func(t *testing.T) {
			inHouseholds(t, func(h *household) {
				c := h.forKids()
				held, pending := h.granted(c, h.otto, "l1"), h.grant(c, h.otto, "l1")
				h.exec(statement, h.otto.ID)
				_, err := h.Grants.Held(h.Context(), held.ID)
				h.refused("the grant", err, oidc.ErrGrantEnded)
				_, err = h.Grants.CreateGrant(h.Context(), pending)
				h.refused("the code under way", err, oidc.ErrNotAdmitted)
			})
		})
	}
}

// TestEnd_AManyGrants queues more logouts than one statement does.
func TestEnd_OfManyGrantsTellsOfEach(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.forKids()
		for i := range 450 {
			g := h.grant(c, h.otto, fmt.Sprint("l", i))
			h.exec(`INSERT INTO oidc_grants (id, application_id, user_id, login, stamp, scopes, offline, auth_time, factor, created_at, last_used_at)
				VALUES (?, ?, ?, ?, ?, 'openid', FALSE, 1, 'pwd', 1, 1)`, g.ID, g.ApplicationID, g.UserID, g.Login, g.Stamp)
		}
		must(h.Users.EndSessions(h.Context(), h.otto.ID, session.Session{}))(h.T)
		if n := len(h.queued()); n != 450 {
			t.Errorf("%d queued", n)
		}
	})
}

// TestEnd_ByAgeTellsTheApplication: otherwise no later logout would find the grant, and the application's own session
// would stay open.
func TestEnd_ByAgeTellsTheApplication(t *testing.T) {
	for name, age := range map[string]time.Duration{
		"not used": oidc.RefreshIdle + oidc.KeepEnded,
		"too long": oidc.RefreshLifetime + oidc.KeepEnded,
	} {
		t.Run(name, func(t *testing.T) {
			inHouseholds(t, func(h *household) {
				c := h.forKids()
				held := h.granted(c, h.otto, "l1")
				ended := h.granted(c, h.otto, "l2")
				h.ok(h.Grants.EndGrant(h.Context(), ended.ID, oidc.EndedByClient))
				h.now = h.now.Add(age)
				if name == "too long" {
					h.exec(`UPDATE oidc_grants SET last_used_at = ?`, h.now.Unix())
				}
				h.ok(h.Grants.SweepGrants(h.Context()))
				if diff := cmp.Diff([]string(nil), h.queued()); diff != "" {
					t.Errorf("before: %s", diff)
				}
				must(h.Grants.Held(h.Context(), held.ID))(h.T)
				h.now = h.now.Add(time.Second)
				h.ok(h.Grants.SweepGrants(h.Context()))
				h.ok(h.other.Grants.SweepGrants(h.Context()))
				if diff := cmp.Diff([]string{held.ID}, h.queued()); diff != "" {
					t.Error(diff)
				}
				_, err := h.Grants.Held(h.Context(), held.ID)
				h.refused("the grant", err, oidc.ErrGrantEnded)
				var left int
				h.ok(h.db.Reader.QueryRowContext(h.Context(), `SELECT count(*) FROM oidc_grants`).Scan(&left))
				if left != 0 {
					t.Errorf("%d are left", left)
				}
			})
		})
	}
}

// TestLogouts_AreClaimedByOneReplica has 100 logouts claimed by two processes at once.
func TestLogouts_AreClaimedByOneReplica(t *testing.T) {
	inHouseholds(t, func(h *household) {
		for i := range 100 {
			h.queue(int64(i%5), fmt.Sprint("sid", i))
		}
		var claimed [atOnce][]oidc.Logout
		h.atOnce(func(s *sqlstore.Stores, i int) (err error) {
			claimed[i], err = s.Logouts.ClaimLogouts(h.Context(), 3, nil)
			return err
		})
		seen := map[string]int{}
		for _, some := range claimed {
			for _, l := range some {
				seen[l.SID]++
				if l.Tries != 1 || l.ClientID != "photos" || l.Subject != "subject" || l.URI != "https://photos.example.org/logout" || l.Alg != oidc.RS256 {
					t.Errorf("got %+v", l)
				}
			}
		}
		for sid, n := range seen {
			if n != 1 {
				t.Errorf("%s was claimed %d times", sid, n)
			}
		}
		for len(seen) < 100 { // Postgres leaves out what another process is about to claim
			some := must(h.Logouts.ClaimLogouts(h.Context(), 100, nil))(h.T)
			if len(some) == 0 {
				t.Fatalf("%d of 100 were claimed", len(seen))
			}
			for _, l := range some {
				seen[l.SID]++
			}
		}
	})
}

func (h *household) queue(application int64, sid string) {
	h.Helper()
	h.exec(`INSERT INTO oidc_logouts (application_id, client_id, alg, sub, sid, uri, due_at, created_at)
		VALUES (?, 'photos', 'RS256', 'subject', ?, 'https://photos.example.org/logout', ?, ?)`, application, sid, h.now.Unix(), h.now.Unix())
}

func TestLogouts_WhoseProcessEndsAreClaimedAgain(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := h.Context()
		h.queue(7, "a")
		claim := func(s *sqlstore.Stores, busy ...int64) []oidc.Logout {
			h.Helper()
			return must(s.Logouts.ClaimLogouts(ctx, 10, busy))(h.T)
		}
		if got := claim(h.Stores, 7); len(got) != 0 {
			t.Errorf("of an application that is busy: %+v", got)
		}
		first := claim(h.Stores)
		h.now = h.now.Add(oidc.LogoutLease - time.Second)
		if got := claim(h.other); len(got) != 0 || len(first) != 1 {
			t.Fatalf("%d claimed, %d during the lease", len(first), len(got))
		}
		h.now = h.now.Add(2 * time.Second)
		second := claim(h.other)
		if len(second) != 1 || second[0].Tries != 2 {
			t.Fatalf("got %+v", second)
		}
		// The first is late, and does not decide any more.
		h.ok(h.Logouts.LogoutDone(ctx, first[0]))
		h.ok(h.Logouts.LogoutFailed(ctx, first[0]))
		h.ok(h.Logouts.LogoutLater(ctx, first[0], time.Hour))
		if n := must(h.Logouts.LogoutsWaiting(ctx))(h.T); n != 1 || h.recorded("oidc_logout_failed") != 0 {
			t.Errorf("%d wait", n)
		}
		h.ok(h.other.Logouts.LogoutLater(ctx, second[0], 30*time.Second))
		if got := claim(h.Stores); len(got) != 0 {
			t.Errorf("before it is due: %+v", got)
		}
		h.now = h.now.Add(31 * time.Second)
		third := claim(h.Stores)
		h.ok(h.Logouts.LogoutFailed(ctx, third[0]))
		if n := must(h.Logouts.LogoutsWaiting(ctx))(h.T); n != 0 || h.recorded("oidc_logout_failed") != 1 {
			t.Errorf("%d wait, %d recorded", n, h.recorded("oidc_logout_failed"))
		}
	})
}

// TestLogouts_ThatFailNameTheApplication by its short name, as all records do, or its client's id once it is gone.
func TestLogouts_ThatFailNameTheApplication(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.withClient("albums")
		for _, l := range []oidc.Logout{{ApplicationID: c.ApplicationID}, {ApplicationID: c.ApplicationID + 1}} {
			h.queue(l.ApplicationID, "a")
			for _, claimed := range must(h.Logouts.ClaimLogouts(h.Context(), 1, nil))(h.T) {
				h.ok(h.Logouts.LogoutFailed(h.Context(), claimed))
			}
		}
		var told []any
		for _, e := range must(h.Audit.Entries(h.Context(), audit.Query{Event: "oidc_logout_failed", Limit: 10}))(h.T) {
			told = append(told, e.Detail["app"])
		}
		if !slices.Equal(told, []any{"photos", c.Slug}) {
			t.Errorf("told of %q", told)
		}
	})
}

// TestEnd_GrantOfAKeptSessionHolds: a session that a new password kept signs in again.
func TestEnd_GrantOfAKeptSessionHolds(t *testing.T) {
	inHouseholds(t, func(h *household) {
		c := h.forKids()
		must(h.Users.EndOthers(h.Context(), sessionOf(h.present(), "l1")))(h.T)
		g := h.granted(c, h.otto, "l1")
		must(h.Grants.Held(h.Context(), g.ID))(h.T)
		if g.Factor != session.Password {
			t.Error(g.Factor)
		}
	})
}
