package pages_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// hidesSteps is the button that hides the first steps.
const hidesSteps = `name="do" value="hide"`

// TestStart_HasTheFirstStepsOfANewHousehold: for admins, until all are done.
func TestStart_HasTheFirstStepsOfANewHousehold(t *testing.T) {
	f := newEmptyFixture(t)
	_, token, err := f.people.CreateSetupLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	anna := f.browser()
	anna.post("/pforte/setup", "t", token, "household", "Familie Kern", "username", "anna", "display_name", "Anna", "password", adminPass, "again", adminPass).leadsTo("/pforte/")
	anna.get("/pforte/").shows("Die ersten Schritte", "Haushalt benennen<span class=\"unseen\"> (erledigt)", `<a href="/pforte/admin/invites">Familie einladen</a>`, "Anwendung hinzufügen</a>", hidesSteps).
		lacks("Passkey hinzufügen") // there are none without the household's address
	f.add("otto", "Otto", userPass, "member")
	anna.get("/pforte/").shows("Familie einladen<span")
	f.otto().get("/pforte/").lacks("Familie einladen", hidesSteps, "/pforte/admin/")
	f.application("notes", "/notes/", "login", false)
	anna.get("/pforte/").shows("Die ersten Schritte", `value="setup">Code aus einer App</button>`)
	anna.enroll()
	anna.get("/pforte/").lacks("Die ersten Schritte", hidesSteps)
}

// TestStart_AHouseholdNamedAsByDefaultIsNamed: the step ends when somebody has chosen a name, whichever it is.
func TestStart_AHouseholdNamedAsByDefaultIsNamed(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.get("/pforte/").shows("Haushalt benennen</a>")
	if err := f.people.NameHousehold(t.Context(), user.Operator, account.DefaultHouseholdName); err != nil {
		t.Fatal(err)
	}
	anna.get("/pforte/").shows("Haushalt benennen<span").lacks("Haushalt benennen</a>")
}

// TestStart_ANewMemberProtectsTheAccount: by a passkey or by codes, from the start page, for as long as they are new.
func TestStart_ANewMemberProtectsTheAccount(t *testing.T) {
	f := newFixture(t, func(o *web.Options) { o.PublicURL = "https://example.com" })
	otto := f.otto()
	otto.get("/pforte/").shows("Die ersten Schritte", `data-return="/pforte/account/security?done=passkey-added"`, `value="setup">Code aus einer App</button>`, "passkey.js").lacks(hidesSteps)
	f.advance(30 * 24 * time.Hour)
	otto = f.otto()
	otto.get("/pforte/").lacks("Die ersten Schritte", "passkey.js")
	f.add("ida", "Ida", userPass, "member")
	ida := f.loggedIn("ida", userPass)
	ida.get("/pforte/").shows("Die ersten Schritte")
	ida.enroll()
	ida.get("/pforte/").lacks("Die ersten Schritte", "passkey.js")
}

func TestStart_AnAdminInvites(t *testing.T) {
	f := newFixture(t)
	f.otto().get("/pforte/").lacks(`value="invite"`)
	anna := f.anna()
	anna.get("/pforte/").shows(`action="/pforte/admin/invites"`, `value="invite">Jemanden einladen</button>`)
	link := anna.shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK)
	link.shows("/pforte/join?t=")
}

func TestStart_FirstStepsAreHiddenByAnAdmin(t *testing.T) {
	f := newFixture(t, func(o *web.Options) { o.PublicURL = "https://example.com" })
	anna := f.anna()
	anna.get("/pforte/").shows(">Passkey hinzufügen</button>")
	f.otto().post("/pforte/", "do", "hide").want(http.StatusForbidden)
	anna.get("/pforte/").shows("Die ersten Schritte")
	anna.post("/pforte/", "do", "hide").leadsTo("/pforte/")
	anna.get("/pforte/").lacks("Die ersten Schritte")
	f.add("paula", "Paula", adminPass, "admin")
	f.loggedIn("paula", adminPass).get("/pforte/").lacks("Die ersten Schritte")
}

func TestStart_SaysWhenTheLastBackupWas(t *testing.T) {
	database := "sqlite:" + filepath.Join(t.TempDir(), "auth.db")
	f := newFixtureIn(t, database)
	f.add("anna", "Anna", adminPass, "admin")
	f.add("otto", "Otto", userPass, "member")
	anna := f.anna()
	anna.get("/pforte/").lacks("Letzte Sicherung")
	if err := sqldb.ExecWhereTable(t.Context(), database, "household", `INSERT INTO household (key, value) VALUES ('last_backup', '2026-03-01T03:00:00Z')`); err != nil {
		t.Fatal(err)
	}
	anna.get("/pforte/").shows(`Letzte Sicherung: <time datetime="2026-03-01T03:00:00Z">heute, 03:00 UTC`)
	f.otto().get("/pforte/").lacks("Letzte Sicherung")
}

// TestJoin_GivesAColourByTheName: the default is for those whom an admin or a program creates.
func TestJoin_GivesAColourByTheName(t *testing.T) {
	f := newFixture(t)
	for id, name := range []string{"Mia", "Paul"} {
		_, token, err := f.people.Invite(t.Context(), session.Session{}, people.NewInvite{DisplayName: name})
		if err != nil {
			t.Fatal(err)
		}
		f.browser().post("/pforte/join", "t", token, "username", "new-"+name, "display_name", name, "password", "a good secret", "again", "a good secret").want(http.StatusSeeOther)
		if u := must(f.store.Users.ByID(t.Context(), int64(3+id)))(t); u.AvatarColor != user.ColorOf(name) || u.AvatarColor == user.DefaultAvatarColor {
			t.Errorf("%s has %s", name, u.AvatarColor)
		}
	}
	if user.ColorOf("Mia") == user.ColorOf("Paul") {
		t.Error("they have one colour")
	}
}
