package sqlstore_test

import (
	"context"
	"encoding/csv"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// events returns the names of the recorded events with their actor and subject.
func events(t *testing.T, db *sqldb.DB) (all []string) {
	t.Helper()
	rows, err := db.Reader.QueryContext(t.Context(), `SELECT event || ' ' || actor_name || ' ' || subject_name FROM audit ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAudit_EveryChangeOfAUserIsRecorded also checks that a change that fails leaves no row.
func TestAudit_EveryChangeOfAUserIsRecorded(t *testing.T) {
	for name, fresh := range map[string]func(testing.TB) string{"SQLite": sqldbtest.SQLite, "Postgres": sqldbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			url := fresh(t)
			if url == "" {
				t.Skip("not installed")
			}
			db := open(t, url)
			store := sqlstore.New(db, time.Now, nil)
			ctx := audit.With(t.Context(), audit.Actor{Kind: audit.User, ID: 1, Name: "anna"})
			anna := must(store.Users.Create(ctx, user.New{Username: "anna", Role: user.Admin}, session.Session{}))(t)
			otto := must(store.Users.Create(ctx, user.New{Username: "otto", Role: user.Member}, sessionOf(anna, "key")))(t)
			for _, change := range []func(context.Context) error{
				func(ctx context.Context) error {
					_, err := store.Users.SetPasswordHash(ctx, sessionOf(otto, ""), "", "new")
					return err
				},
				func(ctx context.Context) error {
					_, err := store.Users.ResetPassword(ctx, otto.ID, "newer")
					return err
				},
				func(ctx context.Context) error {
					_, err := store.Users.EndSessions(ctx, otto.ID, session.Session{})
					return err
				},
				func(ctx context.Context) error { return store.Users.SetRole(ctx, otto.ID, user.Admin) },
				func(ctx context.Context) error {
					_, err := store.Users.Delete(ctx, otto.ID, sessionOf(anna, "key"))
					return err
				},
			} {
				if err := change(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := store.Users.Delete(ctx, anna.ID, sessionOf(anna, "key")); err == nil {
				t.Error("the last admin was deleted")
			}
			want := []string{
				"user_created anna anna", "user_created anna otto", "password_changed anna otto", "password_reset anna otto",
				"sessions_ended anna otto", "role_changed anna otto", "user_deleted anna otto",
			}
			if got := events(t, db); !slices.Equal(got, want) {
				t.Errorf("recorded %q, want %q", got, want)
			}
		})
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var everything = audit.Query{Limit: 1000}

func TestAudit_EntriesAreSelectedAndPaged(t *testing.T) {
	inHouseholds(t, func(h *household) {
		for i := range 5 {
			h.now = start.Add(time.Duration(i) * time.Hour)
			ctx := audit.With(h.Context(), audit.Actor{Kind: audit.User, ID: h.anna.ID, Name: "anna", IP: "192.0.2.1", Agent: "Firefox, Linux", RequestID: "r", SessionKey: "k"})
			if err := h.Audit.Record(ctx, audit.Event{Name: "login", SubjectID: h.otto.ID, SubjectName: "otto", Detail: map[string]any{"factor": "pwd"}}); err != nil {
				h.Fatal(err)
			}
		}
		for what, test := range map[string]struct {
			q    audit.Query
			want int
		}{
			"all": {everything, 7}, "a page": {audit.Query{Limit: 3}, 3}, "an event": {audit.Query{Limit: 99, Event: "login"}, 5},
			"a subject": {audit.Query{Limit: 99, UserID: h.otto.ID}, 6}, "an actor": {audit.Query{Limit: 99, UserID: h.anna.ID}, 6},
			"from": {audit.Query{Limit: 99, Event: "login", From: start.Truncate(time.Second).Add(time.Hour)}, 4},
			"to":   {audit.Query{Limit: 99, Event: "login", To: start.Truncate(time.Second).Add(time.Hour)}, 1},
		} {
			if entries := must(h.Audit.Entries(h.Context(), test.q))(h.T); len(entries) != test.want {
				h.Errorf("%s: %d entries, want %d", what, len(entries), test.want)
			}
		}
		var ids []int64
		for before := (audit.Cursor{}); ; {
			page := must(h.Audit.Entries(h.Context(), audit.Query{Limit: 2, Before: before}))(h.T)
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				ids = append(ids, e.ID)
			}
			before.ID = page[len(page)-1].ID
		}
		if len(ids) != 7 || !slices.IsSortedFunc(ids, func(a, b int64) int { return int(b - a) }) {
			h.Errorf("paged: %v", ids)
		}
		e := must(h.Audit.Entries(h.Context(), audit.Query{Limit: 1}))(h.T)[0]
		if e.Actor.Name != "anna" || e.SubjectName != "otto" || e.IP != "192.0.2.1" || e.Agent != "Firefox, Linux" || e.RequestID != "r" || e.SessionKey != "k" ||
			e.Detail["factor"] != "pwd" || e.Count != 1 || e.At.Unix() != h.now.Unix() {
			h.Errorf("got %+v", e)
		}
	})
}

func TestAudit_EventsOfABucketAreOneRowWithACount(t *testing.T) {
	inHouseholds(t, func(h *household) {
		h.atOnce(func(s *sqlstore.Stores, _ int) error {
			return s.Audit.Record(h.Context(), audit.Event{Name: "login_failed", Bucket: "login_failed 1 192.0.2.1"})
		})
		entries := must(h.Audit.Entries(h.Context(), audit.Query{Limit: 10, Event: "login_failed"}))(h.T)
		if len(entries) != 1 || entries[0].Count != atOnce {
			h.Errorf("got %+v", entries)
		}
	})
}

// TestAudit_CountsTheActsOfEachActorApart has a user and a stranger who do the same to one account in turn.
func TestAudit_CountsTheActsOfEachActorApart(t *testing.T) {
	inHouseholds(t, func(h *household) {
		by := map[string]audit.Actor{
			"otto":     {Kind: audit.User, ID: h.otto.ID, Name: "otto", Network: "192.0.2.1", Agent: "Firefox, Linux"},
			"stranger": {Kind: audit.Anonymous, Network: "192.0.2.1", Agent: "Firefox, Linux"},
			"renamed":  {Kind: audit.User, ID: h.otto.ID, Name: "otto.b", Network: "192.0.2.1", Agent: "Firefox, Linux"},
		}
		for _, bucket := range []string{"", "second_factor_failed 1 192.0.2.1"} {
			name := "second_factor_failed" + bucket
			for i, who := range []string{"otto", "stranger", "otto", "stranger", "stranger", "renamed"} {
				h.now = start.Add(time.Duration(i) * time.Second)
				ctx := audit.With(h.Context(), by[who])
				h.ok(h.Audit.Record(ctx, audit.Event{Name: name, SubjectID: h.otto.ID, SubjectName: "otto", Bucket: bucket}))
			}
			got := map[audit.Actor]int64{}
			for _, e := range must(h.Audit.Entries(h.Context(), audit.Query{Limit: 10, Event: name}))(h.T) {
				got[audit.Actor{Kind: e.Kind, ID: e.Actor.ID, Name: e.Actor.Name}] += e.Count
			}
			h.same(got, map[audit.Actor]int64{
				{Kind: audit.User, ID: h.otto.ID, Name: "otto"}: 2, {Kind: audit.Anonymous}: 3,
				{Kind: audit.User, ID: h.otto.ID, Name: "otto.b"}: 1,
			})
		}
	})
}

// TestAudit_CountsTheEventsOfEachApplicationApart: a notice names the application.
func TestAudit_CountsTheEventsOfEachApplicationApart(t *testing.T) {
	inHouseholds(t, func(h *household) {
		photos, notes := h.withClient("photos"), h.withClient("notes")
		ctx := audit.With(h.Context(), audit.Actor{Kind: audit.Anonymous, Network: "192.0.2.1"})
		for _, c := range []oidc.Client{photos, notes, photos} {
			held := must(h.Grants.CreateGrant(ctx, h.grant(c, h.otto, "l1")))(h.T)
			h.ok(h.Grants.EndGrant(ctx, held.ID, oidc.EndedRefresh))
		}
		for name, want := range map[string]map[string]int64{
			"oidc_first_login": {"photos": 1, "notes": 1}, "oidc_refresh_reused": {"photos": 2, "notes": 1},
		} {
			got := map[string]int64{}
			for _, e := range must(h.Audit.Notices(h.Context(), h.otto.ID, []string{name}, true))(h.T) {
				got[e.Detail["app"].(string)] += e.Count
			}
			h.same(got, want)
		}
	})
}

// TestAudit_AnEntryIsWhereItsLastTimeIs repeats an early event at the end, and while it is paged.
func TestAudit_AnEntryIsWhereItsLastTimeIs(t *testing.T) {
	inHouseholds(t, func(h *household) {
		record := func(second int, name string) {
			h.now = start.Add(time.Duration(second) * time.Second)
			h.ok(h.Audit.Record(h.Context(), audit.Event{Name: name, Bucket: name}))
		}
		for i, name := range []string{"a", "b", "c", "d", "b", "a", "a"} {
			record(i+1, name)
		}
		recorder := must(audit.NewRecorder(audit.RecorderOptions{Store: h.Audit, Log: slog.New(slog.DiscardHandler), Now: time.Now}))(h.T)
		page := func(before audit.Cursor) (names []string, next audit.Cursor) {
			entries, next, err := recorder.Entries(h.Context(), audit.Query{Limit: 2, Before: before, From: start.Truncate(time.Second).Add(time.Second)})
			h.ok(err)
			for _, e := range entries {
				names = append(names, e.Event.Name)
			}
			return names, next
		}
		first, next := page(audit.Cursor{})
		h.same(first, []string{"a", "b"})
		record(8, "b") // where the next page begins
		second, _ := page(next)
		h.same(second, []string{"d", "c"})
		again, _ := page(audit.Cursor{ID: next.ID}) // of a client that knows the id only: where the entry is now
		h.same(again, []string{"a", "d"})
		all, _ := page(audit.Cursor{ID: 1 << 40})
		h.same(all, []string{"b", "a"})

		var file strings.Builder
		h.ok(recorder.WriteCSV(h.Context(), &file, audit.Query{From: start.Truncate(time.Second).Add(time.Second)}))
		var names []string
		for _, row := range must(csv.NewReader(strings.NewReader(file.String())).ReadAll())(h.T)[1:] {
			names = append(names, row[2]+row[13])
		}
		h.same(names, []string{"b3", "a3", "d1", "c1"})
	})
}

func TestAudit_ASweepIsItselfAnEntry(t *testing.T) {
	inHouseholds(t, func(h *household) {
		if n := must(h.Audit.Sweep(h.Context(), h.now.Add(-time.Hour)))(h.T); n != 0 || len(must(h.Audit.Entries(h.Context(), everything))(h.T)) != 2 {
			h.Errorf("swept %d of nothing", n)
		}
		if n := must(h.Audit.Sweep(h.Context(), h.now.Add(time.Hour)))(h.T); n != 2 {
			h.Errorf("swept %d", n)
		}
		if entries := must(h.Audit.Entries(h.Context(), everything))(h.T); len(entries) != 1 || entries[0].Event.Name != "audit_swept" || entries[0].Detail["entries"] != float64(2) {
			h.Errorf("left: %+v", entries)
		}
	})
}

func TestNotices_AreThoseTheUserHasNotSeen(t *testing.T) {
	inHouseholds(t, func(h *household) {
		names := []string{"reset_made", "role_changed"}
		h.reset()
		if err := h.Users.SetRole(h.Context(), h.otto.ID, user.Admin); err != nil {
			h.Fatal(err)
		}
		notices := must(h.Audit.Notices(h.Context(), h.otto.ID, names, false))(h.T)
		if len(notices) != 2 || notices[0].Event.Name != "role_changed" {
			h.Errorf("got %+v", notices)
		}
		if others := must(h.Audit.Notices(h.Context(), h.anna.ID, names, false))(h.T); len(others) != 0 {
			h.Errorf("of somebody else: %+v", others)
		}
		for _, upTo := range []time.Time{notices[0].At, start.Add(-time.Hour)} { // the later one stays
			if err := h.Audit.NoticesSeen(h.Context(), h.otto.ID, upTo); err != nil {
				h.Error(err)
			}
		}
		if left := must(h.Audit.Notices(h.Context(), h.otto.ID, names, false))(h.T); len(left) != 0 {
			h.Errorf("seen, and still there: %+v", left)
		}
		if all := must(h.Audit.Notices(h.Context(), h.otto.ID, names, true))(h.T); len(all) != 2 {
			h.Errorf("seen or not: %+v", all)
		}
		h.now = h.now.Add(time.Second)
		h.reset()
		if fresh := must(h.Audit.Notices(h.Context(), h.otto.ID, names, false))(h.T); len(fresh) != 1 {
			h.Errorf("got %+v", fresh)
		}
	})
}

func TestNotices_OfAdminsAreThoseOfTheOthers(t *testing.T) {
	inHouseholds(t, func(h *household) {
		names, since := []string{"app_made", "oidc_logout_failed"}, start.Add(-time.Hour)
		told := func(id int64) int { return len(must(h.Audit.AdminNotices(h.Context(), id, names, since))(h.T)) }
		as := func(kind audit.Kind, id int64) context.Context {
			return audit.With(h.Context(), audit.Actor{Kind: kind, ID: id, Name: "x"})
		}
		h.now = start.Add(time.Minute)
		h.ok(h.Applications.CreateApplication(as(audit.User, h.anna.ID), app("notes"), application.Icon{}, h.byAnna()))
		h.ok(h.Audit.Record(as(audit.System, 0), audit.Event{Name: "app_made"}))
		if n, other := told(h.anna.ID), told(h.otto.ID); n != 0 || other != 0 {
			h.Errorf("who did it: %d, a member: %d", n, other)
		}
		h.ok(h.Users.SetRole(h.Context(), h.otto.ID, user.Admin))
		h.ok(h.Applications.CreateApplication(as(audit.Operator, 0), app("photos"), application.Icon{}, session.Session{}))
		if n, other := told(h.anna.ID), told(h.otto.ID); n != 1 || other != 2 {
			h.Errorf("told %d and %d", n, other)
		}
		h.ok(h.Audit.NoticesSeen(h.Context(), h.otto.ID, h.now))
		if n := told(h.otto.ID); n != 0 {
			h.Errorf("seen, and told %d", n)
		}
		since = h.now.Add(time.Second)
		if n := told(h.anna.ID); n != 0 {
			h.Errorf("too old, and told %d", n)
		}
		h.now = since
		h.ok(h.Audit.Record(as(audit.System, 0), audit.Event{Name: "oidc_logout_failed"}))
		if n, other := told(h.anna.ID), told(h.otto.ID); n != 1 || other != 1 {
			h.Errorf("an application was not told, and they are told %d and %d", n, other)
		}
	})
}

// TestAudit_EventsAreObservedWhenCommitted has changes that fail, and one that runs again.
func TestAudit_EventsAreObservedWhenCommitted(t *testing.T) {
	inHouseholds(t, func(h *household) {
		ctx := audit.With(h.Context(), audit.Actor{Kind: audit.User, ID: h.anna.ID, Name: "anna", IP: "192.0.2.1"})
		var observed []audit.Entry
		store := sqlstore.New(h.db, func() time.Time { return start }, func(_ context.Context, e audit.Entry) { observed = append(observed, e) })
		before, admin, member := len(h.events()), user.Admin, user.Member
		h.refused("a demotion of the last admin", store.Users.Change(ctx, h.anna.ID, user.Change{Role: &member}, h.byAnna()), user.ErrLastAdmin)
		name := "x"
		h.refused("a change that fails after an event", store.Users.Change(ctx, h.otto.ID, user.Change{DisplayName: &name, Groups: &[]string{"nobody"}}, h.byAnna()), application.ErrGroupNotFound)
		if len(observed) > 0 {
			h.Fatalf("observed %+v", observed)
		}
		h.ok(store.Users.Change(ctx, h.otto.ID, user.Change{DisplayName: &name, Role: &admin}, h.byAnna()))
		if len(observed) != 2 || observed[1].Event.Name != "role_changed" || observed[1].SubjectName != "otto" || observed[1].Actor.Name != "anna" || observed[1].IP != "192.0.2.1" || !observed[1].At.Equal(start) {
			h.Errorf("observed %+v", observed)
		}
		if h.db.Dialect == sqldb.Postgres {
			// The commit of the first transaction fails as one does that lost against another.
			h.exec(`CREATE SEQUENCE tries`)
			h.exec(`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF nextval('tries') = 1 THEN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END IF; RETURN NULL; END $$`)
			h.exec(`CREATE CONSTRAINT TRIGGER losing AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose()`)
		}
		h.ok(store.Users.Change(ctx, h.otto.ID, user.Change{Role: &member}, h.byAnna()))
		if got := len(h.events()) - before; got != 3 || len(observed) != 3 {
			h.Errorf("observed %d events, recorded %d", len(observed), got)
		}
	})
}
