package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// household is a stack whose pages are used in Chromium: auth behind the proxy, and
// nothing else.
type household struct {
	*world
	origin string // as people type it
}

// newHousehold starts the stack of a household. People use its pages at a host name.
func newHousehold(t *testing.T, host string, settings map[string]string) household {
	t.Helper()
	node(t)
	chromium(t)
	h := household{}
	h.world = newWorld(t, h.options(host, settings))
	return h
}

func (h *household) options(host string, settings map[string]string) options {
	return options{
		change: func(l *layout.Layout) {
			_, port, _ := strings.Cut(strings.TrimPrefix(l.PublicURL, "http://"), ":")
			h.origin = "http://" + host + ":" + port
			l.Extra["auth"] = map[string]string{"PUBLIC_URL": h.origin, "TZ": "UTC"}
			l.Extra["pforte-proxy"] = map[string]string{"TRUSTED_PROXIES": "127.0.0.1", "ROUTES": calendar} // devices have addresses of their own
			maps.Copy(l.Extra["auth"], settings)
		},
		only: func(l layout.Layout) []stack.Program {
			proxy := l.Proxy()
			proxy.Ready = stack.Healthy("http://" + l.Addresses.Proxy + "/api/v1/auth/openapi.json") // there is no verifier
			return []stack.Program{l.Auth(), proxy}
		},
	}
}

// calendar is the route of an application that the common household has.
const calendar = `@calendar path /calendar /calendar/*
handle @calendar {
	import require_app calendar
	header Content-Type "text/html; charset=utf-8"
	respond "<!doctype html><html lang=de><link rel=icon href=data:,><title>Calendar</title><h1>Calendar</h1>"
}
`

// common is the household of all journeys that need none of their own.
var common struct {
	sync.Mutex
	household
	stop func()
}

// commonHousehold starts the common household at the first call.
func commonHousehold(t *testing.T) household {
	t.Helper()
	node(t)
	chromium(t)
	common.Lock()
	defer common.Unlock()
	if common.world == nil {
		dir, err := os.MkdirTemp("", "pforte-household-")
		if err != nil {
			t.Fatal(err)
		}
		w, stop, err := start(context.Background(), dir, common.options("localhost", nil)) // passkeys need https or this host
		common.stop = func() { stop(); _ = os.RemoveAll(dir) }
		if err != nil {
			t.Fatal(stack.Explain(err))
		}
		common.world = w
		w.authCommand(t, "app", "add", "calendar", "/calendar/", "--name", "Kalender")
	}
	t.Cleanup(func() { common.recorder.report(t) })
	return common.household
}

// stopHousehold stops the common household, if it was started.
func stopHousehold() {
	if common.stop != nil {
		common.stop()
	}
}

// inBothLanguages runs a journey in each language, beside others. The first device has that
// language, and who comes later the other one.
func inBothLanguages(t *testing.T, journey func(t *testing.T, lang string)) {
	for _, lang := range []string{"de", "en"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			journey(t, lang)
		})
	}
}

// variant is one way in which a journey is taken.
type variant struct {
	name string   // also the end of the names of its members
	env  []string // of the journey, for its first device
}

// inAllVariants runs a journey on a phone and a laptop, in both languages, and once without JavaScript, beside others.
func inAllVariants(t *testing.T, journey func(t *testing.T, v variant)) {
	for _, v := range []variant{
		{"phone-de", []string{"VIEW=phone", "LANGUAGE=de"}},
		{"phone-en", []string{"VIEW=phone", "LANGUAGE=en"}},
		{"laptop-de", []string{"LANGUAGE=de"}},
		{"laptop-en", []string{"LANGUAGE=en"}},
		{"plain-de", []string{"VIEW=phone", "LANGUAGE=de", "SCRIPTS=no"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			journey(t, v)
		})
	}
}

// asMember returns the variables of a journey of a new member of a name that ends with the variant's.
func (v variant) asMember(t *testing.T, h household, name string) []string {
	t.Helper()
	name += "-" + v.name
	h.member(t, name)
	return append([]string{"USERNAME=" + name, "PASSWORD=a password of eight"}, v.env...)
}

// chromium is the path of Chromium. Without it the journey is skipped; CI has it.
func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is not installed, and CI is set")
		}
		t.Skip("chromium is not installed")
	}
	return path
}

// journey runs a script of clients/journeys with further variables of its environment.
func (h household) journey(t *testing.T, script string, env ...string) {
	t.Helper()
	runJourney(t, script, append(append(h.Auth().Env, "ORIGIN="+h.origin, "AUTH="+filepath.Join(h.Bin, "auth")), env...))
}

// runJourney runs a script of clients/journeys with the environment env.
func runJourney(t *testing.T, script string, env []string) {
	t.Helper()
	d, err := theDriver(node(t), chromium(t))
	if err != nil {
		t.Fatal(err)
	}
	d.run(t, script, env)
}

// asAdmin are the variables of a journey with the first administrator.
func (h household) asAdmin(t *testing.T) []string {
	t.Helper()
	password, err := h.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"USERNAME=" + layout.AdminName, "PASSWORD=" + password}
}

// person returns the variables of a journey of a new member, in a language.
func (h household) person(t *testing.T, name, lang string) []string {
	t.Helper()
	name += "-" + lang
	h.member(t, name)
	return []string{"USERNAME=" + name, "PASSWORD=a password of eight", "LANGUAGE=" + lang}
}

// withMember returns the variables of a journey of the first administrator and a new member,
// in a language.
func (h household) withMember(t *testing.T, name, lang string) []string {
	t.Helper()
	name += "-" + lang
	h.member(t, name)
	return append(h.asAdmin(t), "MEMBER="+name, "MEMBER_PASSWORD=a password of eight", "LANGUAGE="+lang)
}

func TestSetup_FirstAdminComesByALink(t *testing.T) {
	inBothLanguages(t, func(t *testing.T, lang string) {
		h := newHousehold(t, "home.test", map[string]string{"BOOTSTRAP_ADMIN_USERNAME": "", "BOOTSTRAP_ADMIN_PASSWORD_FILE": ""})
		h.journey(t, "setup.mjs", "LANGUAGE="+lang)
	})
}

func TestInvite_LetsAMemberJoinOnAPhone(t *testing.T) {
	inBothLanguages(t, func(t *testing.T, lang string) {
		h := commonHousehold(t)
		h.journey(t, "invite.mjs", append(h.asAdmin(t), "MEMBER=lotte-"+lang, "LANGUAGE="+lang)...)
	})
}

func TestDevices_AreEndedByAMemberWithCodes(t *testing.T) {
	inBothLanguages(t, func(t *testing.T, lang string) {
		h := commonHousehold(t)
		h.journey(t, "second-factor.mjs", h.person(t, "paul", lang)...)
	})
}

func TestRecovery_OfAMemberWhoLostEverything(t *testing.T) {
	inBothLanguages(t, func(t *testing.T, lang string) {
		h := commonHousehold(t)
		h.journey(t, "lost.mjs", h.withMember(t, "mia", lang)...)
	})
}

func TestDuty_OfASecondFactorKeepsNoMemberOut(t *testing.T) {
	inBothLanguages(t, func(t *testing.T, lang string) {
		h := newHousehold(t, "home.test", nil)
		h.journey(t, "duty.mjs", h.withMember(t, "paul", lang)...)
	})
}

// TestPasskey_LogsInConfirmsAndCountsOnce runs alone: a Chromium offers passkeys in the
// field of one page at a time.
func TestPasskey_LogsInConfirmsAndCountsOnce(t *testing.T) {
	for _, lang := range []string{"de", "en"} {
		t.Run(lang, func(t *testing.T) {
			h := commonHousehold(t)
			h.journey(t, "passkey.mjs", h.person(t, "anna", lang)...)
		})
	}
}

func TestLogin_ByKeyboardAndWithoutJavaScript(t *testing.T) {
	inBothLanguages(t, func(t *testing.T, lang string) {
		h := commonHousehold(t)
		h.journey(t, "login.mjs", h.person(t, "jule", lang)...)
	})
}

func TestForms_CannotBeUsedByOtherOrigins(t *testing.T) {
	for _, host := range []string{"localhost", "home.test"} { // with and without Sec-Fetch-Site
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			h := commonHousehold(t)
			h.origin = strings.Replace(h.origin, "localhost", host, 1)
			h.journey(t, "foreign.mjs", h.person(t, "otto-"+host[:4], "de")...)
		})
	}
}

func TestLogin_ReturnsToTheHouseholdOnly(t *testing.T) {
	t.Parallel()
	h := commonHousehold(t)
	h.journey(t, "returns.mjs", h.person(t, "rosa", "de")...)
}

// TestUpgrade_OfAHouseholdOfTheFirstVersion starts on what the first version kept: the
// users joerg (an admin), aenne and opa, and the sessions of the first two. The passwords have
// umlauts; aenne's was typed with combining characters, opa's is longer than bcrypt reads.
func TestUpgrade_OfAHouseholdOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	var kept struct {
		Hashes  map[string]map[string]string
		Sets    map[string][]string
		Cookies map[string]map[string]string
	}
	content, err := os.ReadFile("testdata/version1/sessions.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &kept); err != nil {
		t.Fatal(err)
	}
	h := newHousehold(t, "home.test", map[string]string{
		"BOOTSTRAP_ADMIN_USERNAME": "", "BOOTSTRAP_ADMIN_PASSWORD_FILE": "",
		"SESSION_SECRET": "the secret of the first version, 32 characters", "SESSION_SECRET_FILE": "",
		"DATABASE_URL": "sqlite:" + firstVersionsUsers(t),
	})
	client := redis.NewClient(&redis.Options{Addr: h.Redis})
	defer func() { _ = client.Close() }()
	lifetime := time.Hour
	for key, fields := range kept.Hashes {
		if err := errors.Join(client.HSet(t.Context(), key, fields).Err(), client.Expire(t.Context(), key, lifetime).Err()); err != nil {
			t.Fatal(err)
		}
	}
	for key, members := range kept.Sets {
		for _, member := range members {
			if err := client.ZAdd(t.Context(), key, redis.Z{Score: float64(time.Now().Add(lifetime).UnixMilli()), Member: member}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, role := range map[string]string{"joerg": "admin", "aenne": "member"} {
		b := newBrowser(t, h.PublicURL)
		for cookie, value := range kept.Cookies[name] {
			b.Jar.SetCookies(b.origin, []*http.Cookie{{Name: cookie, Value: value, Path: "/"}})
		}
		if in := b.me(200); in.Username != name || in.Role != role {
			t.Errorf("the session is of %+v", in)
		}
		b.request("POST", "/api/v1/auth/logout", "").want(t, 200, nil)
	}
	for _, password := range []string{"Scho\u0308ne A\u0308pfel", "Sch\u00f6ne \u00c4pfel", "Scho\u0308ne A\u0308pfel"} {
		if in := newBrowser(t, h.PublicURL).login("aenne", password); in.DisplayName != "Änne Müller" {
			t.Errorf("logged in as %+v", in)
		}
	}
	newBrowser(t, h.PublicURL).login("opa", "ein sehr langer Satz mit Umlauten äöü, länger als zweiundsiebzig Bytes")
	h.journey(t, "invite.mjs", "USERNAME=joerg", "PASSWORD=Grüße aus Köln", "MEMBER=lotte")
}

// firstVersionsUsers is the path of a copy of the first version's database.
func firstVersionsUsers(t *testing.T) string {
	t.Helper()
	dump, err := os.ReadFile("testdata/version1/auth.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "auth.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), string(dump))
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}
