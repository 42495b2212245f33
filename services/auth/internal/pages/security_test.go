package pages_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
)

// codeOf returns the TOTP code of a secret in base32 at an instant.
func codeOf(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(secret, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, at.Unix()/30)
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[offset:])&0x7fffffff%1_000_000)
}

var (
	secretShown = regexp.MustCompile(`<p class="secret" id="key">([A-Z2-7 ]+)</p>`)
	idShown     = regexp.MustCompile(` id="[^"]*"`)
	codeShown   = regexp.MustCompile(`<li>([0-9A-Z-]{16,})</li>`)
)

// The page of security, and that on which codes from an app are set up.
const (
	security = "/pforte/account/security"
	codeApp  = security + "/app"
)

// enroll turns TOTP on and returns the secret and the recovery codes.
func (b *browser) enroll() (secret string, codes []string) {
	b.f.t.Helper()
	b.post(security, "do", "setup").leadsTo(codeApp)
	shown := b.get(codeApp).want(http.StatusOK)
	found := secretShown.FindStringSubmatch(shown.body)
	if found == nil {
		b.f.t.Fatalf("no secret is shown: %s", shown.text())
	}
	on := b.shown(codeApp, "do", "enable", "code", codeOf(b.f.t, found[1], b.f.Now())).want(http.StatusOK)
	for _, code := range codeShown.FindAllStringSubmatch(on.body, -1) {
		codes = append(codes, code[1])
	}
	if len(codes) != 10 {
		b.f.t.Fatalf("%d recovery codes: %s", len(codes), on.text())
	}
	return found[1], codes
}

// prove confirms who the user is, with the code of another step.
func (b *browser) prove(pass, secret string) {
	b.f.t.Helper()
	b.f.advance(time.Minute)
	b.post("/pforte/reauth", "password", pass, "code", codeOf(b.f.t, secret, b.f.Now())).leadsTo("/pforte/")
}

// wrongCode is said of every code that does not hold, so that who guesses learns nothing.
const wrongCode = "Der Code ist falsch, abgelaufen oder schon benutzt. Jeder gilt nur einmal: Zeigt die App noch denselben, warte auf den nächsten."

func TestSecondFactor_IsSetUpAndAskedFor(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.get(codeApp).leadsTo(security) // nothing has begun
	b.get(security).want(http.StatusOK).shows("<h2 id=\"state\">Das Passwort allein genügt noch</h2>").lacks("Gut geschützt")
	b.post(security, "do", "setup").leadsTo(codeApp)
	b.post(codeApp, "do", "enable", "code", "000000").want(http.StatusBadRequest).shows(wrongCode, `role="img"`, `href="#code"`)
	secret, codes := b.enroll()
	b.get(codeApp).leadsTo(security)
	b.get(security).want(http.StatusOK).shows("<h2 id=\"state\">Gut geschützt</h2>", "Noch übrig: 10").lacks(codes[0], secret, "Das Passwort allein genügt noch")

	for _, do := range []string{"renew", "disable"} {
		b.post(security, "do", do, "code", "000000").want(http.StatusBadRequest).
			shows(`href="#`+do+`-code"`, `id="`+do+`-code-why"`).lacks(`id="code"`)
	}

	other := f.browser()
	other.post("/pforte/login", "username", "otto", "password", userPass, "return", "/pforte/account").leadsTo("/pforte/second?return=%2Fpforte%2Faccount")
	other.get("/pforte/account").want(http.StatusSeeOther)
	other.get("/pforte/second?return=/pforte/account").want(http.StatusOK).shows("Sechs Ziffern aus der App.")
	other.post("/pforte/second", "do", "verify", "code", "000000", "return", "/pforte/account").want(http.StatusUnauthorized).
		shows(wrongCode, `value="/pforte/account"`).lacks("000000")
	f.advance(time.Minute)
	other.post("/pforte/second", "do", "verify", "code", codeOf(t, secret, f.Now()), "return", "/pforte/account").leadsTo("/pforte/account")
	other.get("/pforte/account").want(http.StatusOK)
	another := f.browser()
	another.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/second?return=%2Fpforte%2F")
	another.post("/pforte/second", "do", "verify", "code", codeOf(t, secret, f.Now())).want(http.StatusUnauthorized).shows(wrongCode)
	b.get("/pforte/account").want(http.StatusOK)

	third := f.browser()
	third.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/second?return=%2Fpforte%2F")
	third.post("/pforte/second", "do", "verify", "code", codes[0], "return", "//evil.example").leadsTo("/pforte/")
	third.get(security).want(http.StatusOK).shows("Noch übrig: 9")
	if strings.Contains(f.log.String(), codes[0]) || strings.Contains(f.log.String(), secret) {
		t.Error("a secret is in the log")
	}
}

// TestSecondFactor_IsSetUpOnThePhoneThatHasTheApp: a link opens the app with the key, and the fields of codes show
// the keyboard of digits.
func TestSecondFactor_IsSetUpOnThePhoneThatHasTheApp(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.post(security, "do", "setup")
	shown := b.get(codeApp)
	secret := strings.ReplaceAll(secretShown.FindStringSubmatch(shown.body)[1], " ", "")
	shown.shows(`href="otpauth://totp/Zuhause:otto?secret=`+secret+`&issuer=Zuhause"`, `id="key-text" value="`+secret+`"`)
	const digits = `id="%s" name="code" type="text" autocomplete="one-time-code" inputmode="numeric"`
	shown.shows(fmt.Sprintf(digits, "code"))
	_, codes := b.enroll()
	b.get("/pforte/reauth").shows(fmt.Sprintf(digits, "code"), `id="recovery" name="recovery"`)
	b.get(security).shows(fmt.Sprintf(digits, "renew-code"), fmt.Sprintf(digits, "disable-code"))
	other := f.browser()
	other.post("/pforte/login", "username", "otto", "password", userPass)
	other.get("/pforte/second").shows(`inputmode="numeric" autocomplete="one-time-code"`)
	// A code of recovery is typed into its own field.
	b.post("/pforte/reauth", "password", userPass, "code", "", "recovery", strings.ToLower(codes[1])).leadsTo("/pforte/")
}

// TestSecondFactor_IsNotAskedForOnceMore: the code that switched it on is a proof.
func TestSecondFactor_IsNotAskedForOnceMore(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	before := b.cookies["svc.sid"]
	b.enroll()
	if b.cookies["svc.sid"] == before {
		t.Error("the session is the one that was proved by the password alone")
	}
	(&browser{f: f, cookies: map[string]string{"svc.sid": before}, headers: b.headers}).get("/pforte/").want(http.StatusSeeOther)
	f.advance(2 * time.Minute)
	b.post(security, "do", "password", "current", userPass, "password", "a new secret", "again", "a new secret").leadsTo(security + "?done=password")
}

// TestRecoveryCodes_OutliveADoubleClickAndAReload: the second click shows what the first one made, also when the
// browser has the cookies of neither answer yet.
func TestRecoveryCodes_OutliveADoubleClickAndAReload(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.post(security, "do", "setup").leadsTo(codeApp)
	shown := b.get(codeApp)
	form := []string{"do", "enable", "code", codeOf(t, secretShown.FindStringSubmatch(shown.body)[1], f.Now()), "form", formID.FindStringSubmatch(shown.body)[1], "csrf", b.cookies["csrf-token"]}
	twice := &browser{f: f, cookies: maps.Clone(b.cookies), headers: b.headers}
	first, second := b.post(codeApp, form...).want(http.StatusSeeOther), twice.post(codeApp, form...).want(http.StatusSeeOther)
	at := first.header.Get("Location")
	if second.header.Get("Location") != at {
		t.Fatalf("the second click leads to %q, the first to %q", second.header.Get("Location"), at)
	}
	codes := codeShown.FindAllString(twice.get(at).want(http.StatusOK).body, -1)
	if again := codeShown.FindAllString(twice.get(at).want(http.StatusOK).body, -1); len(codes) != 10 || !slices.Equal(again, codes) {
		t.Errorf("a reload shows %q, before %q", again, codes)
	}
	twice.post(security, "once", strings.TrimPrefix(at, security+"?once=")).leadsTo(security)
	twice.get(at).want(http.StatusNotFound).lacks(codes[0])
}

func TestRecoveryCodes_AreSavedAndRenewed(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	secret, codes := b.enroll()
	f.advance(time.Hour) // the code is a proof by itself
	renewed := b.shown(security, "do", "renew", "code", codeOf(t, secret, f.Now())).want(http.StatusOK).shows("Deine neuen Codes gelten ab jetzt", `download="pforte-codes.txt"`).lacks(codes[0])
	file := regexp.MustCompile(`href="data:text/plain;charset=utf-8,([^"]+)"`).FindStringSubmatch(renewed.body)
	if file == nil || len(strings.Fields(strings.ReplaceAll(file[1], "%0D%0A", " "))) != 10 {
		t.Errorf("the file is %v", file)
	}
	fresh := codeShown.FindStringSubmatch(renewed.body)[1]
	if file != nil && !strings.HasPrefix(file[1], fresh) {
		t.Errorf("the file begins with %s", file[1])
	}
	b.post("/pforte/reauth", "password", userPass, "recovery", codes[0]).want(http.StatusUnauthorized)
	b.post("/pforte/reauth", "password", userPass, "recovery", fresh).leadsTo("/pforte/")
	f.advance(time.Minute)
	b.post(security, "do", "disable", "code", codeOf(t, secret, f.Now())).leadsTo(security + "?done=factor-off")
	b.get(security + "?done=factor-off").shows("Das Passwort allein genügt noch")
}

// TestSecondFactor_ASetUpIsOfItsSession: somebody with a stolen session begins one, and would
// know the secret that the user confirms later.
func TestSecondFactor_ASetUpIsOfItsSession(t *testing.T) {
	f := newFixture(t)
	stolen, otto := f.otto(), f.otto()
	stolen.post(security, "do", "setup").leadsTo(codeApp)
	secret := secretShown.FindStringSubmatch(stolen.get(codeApp).body)[1]
	otto.get(codeApp).leadsTo(security)
	otto.post(codeApp, "do", "enable", "code", codeOf(t, secret, f.Now())).leadsTo(security)
	otto.get(security).shows("Das Passwort allein genügt noch")
	otto.enroll()
}

func TestSecondFactor_ASecondStepIsCancelled(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.enroll()
	other := f.browser()
	other.get("/pforte/second").leadsTo("/pforte/login?done=expired")
	other.post("/pforte/login", "username", "otto", "password", userPass)
	other.post("/pforte/second", "do", "cancel").leadsTo("/pforte/login")
	other.get("/pforte/second").leadsTo("/pforte/login?done=expired")
	other.get("/pforte/login?done=expired").shows("Die Anmeldung hat zu lange gedauert.")
}

func TestPassword_WithASecondFactorNeedsARecentProof(t *testing.T) {
	f := newFixture(t)
	b, anna := f.otto(), f.anna()
	secret, _ := b.enroll()
	b.prove(userPass, secret)
	b.get(security).want(http.StatusOK).shows(`name="current"`)
	f.advance(10*time.Minute + time.Second)
	b.get(security).want(http.StatusOK).shows("/pforte/reauth?return=%2Fpforte%2Faccount%2Fsecurity%3Fopen%3Dpassword").lacks(`name="current"`)
	b.post(security, "do", "password", "current", userPass, "password", "another secret", "again", "another secret").want(http.StatusForbidden).
		shows("<h1>Bestätigen</h1>").lacks("another secret")
	f.browser().post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/second?return=%2Fpforte%2F")
	anna.post(security, "do", "password", "current", adminPass, "password", "another secret", "again", "another secret").leadsTo(security + "?done=password")
}

// TestProof_IsAskedWhereSomethingChanges: looking needs none, but for what is other people's, which
// needs one of the last day.
func TestProof_IsAskedWhereSomethingChanges(t *testing.T) {
	f := newFixture(t)
	f.group("kids", "Kinder")
	f.application("notes", "/notes/", "login", true)
	anna := f.anna()
	own := []string{
		"/pforte/", "/pforte/account", security, "/pforte/account/tokens",
		"/pforte/admin/apps", "/pforte/admin/apps/new", "/pforte/admin/apps/notes",
	}
	others := []string{
		"/pforte/admin/groups",
		"/pforte/admin/members", "/pforte/admin/members/2", "/pforte/admin/invites", "/pforte/admin/groups/kids", "/pforte/admin/security", "/pforte/admin/audit",
	}
	changes := map[string][]string{
		"/pforte/account":                 {"email"},
		security:                          {"setup", "enable", "enable-passkey", "remove"},
		"/pforte/account/tokens":          {"create"},
		"/pforte/admin/members/2":         {"change", "reset-link", "factor", "sessions", "delete"},
		"/pforte/admin/invites":           {"invite", "revoke"},
		"/pforte/admin/groups":            {""},
		"/pforte/admin/groups/kids":       {"change", "rename", "remove"},
		"/pforte/admin/apps/new":          {"", "add", "probe"},
		"/pforte/admin/apps/probe":        {""},
		"/pforte/admin/apps/notes":        {"change", "remove"},
		"/pforte/admin/security":          {""},
		"/pforte/admin/sign-in/notes":     {"change", "remove"},
		"/pforte/admin/sign-in/new/notes": {""},
		"/pforte/admin/keys":              {"rotate"},
		"/pforte/account/delete":          {""},
	}
	refused := func() {
		t.Helper()
		for path, dos := range changes {
			for _, do := range dos {
				anna.post(path, "do", do, "id", "1", "code", "123456", "confirm", "otto", "slug", "other", "name", "Other", "url", "/other/", "rule", "login",
					"days", "30", "app.notes", "yes", "required", "yes").want(http.StatusForbidden).shows("<h1>Bestätigen</h1>", `name="return" value="`+path+`"`)
			}
		}
	}
	f.advance(10*time.Minute + time.Second)
	for _, path := range append(own, others...) {
		anna.get(path).want(http.StatusOK).lacks("<h1>Bestätigen</h1>", "/pforte/reauth")
	}
	anna.get("/pforte/admin/audit.csv").want(http.StatusOK)
	refused()
	anna.post("/pforte/admin/members/2", "do", "delete", "csrf", "wrong").want(http.StatusForbidden).shows("<h1>Bestätigen</h1>") // not the page again

	f.advance(24*time.Hour - 10*time.Minute)
	for _, path := range own {
		anna.get(path).want(http.StatusOK)
	}
	for _, path := range others {
		anna.get(path).leadsTo("/pforte/reauth?return=" + strings.ReplaceAll(path, "/", "%2F"))
	}
	refused()
	if there := anna.get("/pforte/admin/audit.csv").header.Get("Location"); there != "/pforte/reauth?return=%2Fpforte%2Fadmin%2Faudit" {
		t.Errorf("the file leads to %q", there)
	}
	if u := must(f.people.Member(t.Context(), 2))(t); u.SecondFactor {
		t.Errorf("otto is %+v", u)
	}
	f.stored("notes")

	old := anna.cookies["svc.sid"]
	anna.get("/pforte/reauth?return=/pforte/admin/invites").want(http.StatusOK).shows("Bestätigen", `value="/pforte/admin/invites"`)
	anna.post("/pforte/reauth", "password", "mistyped", "return", "/pforte/admin/invites").want(http.StatusUnauthorized).shows("Das Passwort ist falsch.").lacks("mistyped")
	anna.post("/pforte/reauth", "password", adminPass, "return", "/pforte/admin/invites").leadsTo("/pforte/admin/invites")
	anna.get("/pforte/admin/invites").want(http.StatusOK)
	anna.post("/pforte/admin/security", "required", "yes").leadsTo("/pforte/admin/security?done=profile")
	gone := &browser{f: f, cookies: map[string]string{"svc.sid": old}, headers: anna.headers}
	gone.get("/pforte/").want(http.StatusSeeOther)
}

func TestProof_IsAskedByEveryFormAboutTheHousehold(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	f.advance(10*time.Minute + time.Second)
	e := echo.New()
	f.pages.Routes(e)
	var forms int
	for _, r := range e.Routes() {
		if r.Method != http.MethodPost || !strings.HasPrefix(r.Path, "/pforte/admin/") {
			continue
		}
		forms++
		anna.post(strings.Replace(r.Path, ":id", "2", 1), "do", "invite", "role", "admin").
			want(http.StatusForbidden).shows("<h1>Bestätigen</h1>")
	}
	if forms < 10 {
		t.Errorf("%d forms", forms)
	}
	if invites := must(f.people.Invites(t.Context()))(t); len(invites) > 0 {
		t.Errorf("invites: %+v", invites)
	}
}

// TestProof_AnEndedSessionLeadsToTheLogin sends the form of a new proof from many tabs at
// once: the first one replaces the session.
func TestProof_AnEndedSessionLeadsToTheLogin(t *testing.T) {
	f := newFixture(t)
	otto := f.otto()
	var all sync.WaitGroup
	var proved atomic.Int64
	for range 20 {
		tab := &browser{f: f, cookies: maps.Clone(otto.cookies), headers: otto.headers}
		all.Go(func() {
			a := tab.post("/pforte/reauth", "password", userPass, "return", "/pforte/account")
			switch a.status {
			case http.StatusSeeOther:
				proved.Add(1)
			case http.StatusUnauthorized:
				a.shows("Deine Anmeldung ist abgelaufen.", "<h1>Anmelden</h1>").lacks("Otto")
			case http.StatusTooManyRequests: // of the limit of wrong passwords, which counts before it knows
			default:
				t.Errorf("got %d: %s", a.status, a.text())
			}
		})
	}
	all.Wait()
	if proved.Load() != 1 {
		t.Errorf("%d proofs", proved.Load())
	}
}

// TestProof_TypedFieldsOutliveANewOne sends a form for which the last proof is too old.
func TestProof_TypedFieldsOutliveANewOne(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	const path = "/pforte/admin/members/2"
	typed := []string{"do", "change", "display_name", "Otto <K.>", "color", "own", "hex", "#3a7d5c", "role", "admin"}
	f.advance(10*time.Minute + time.Second)
	anna.post(path+"?done=profile", typed...).want(http.StatusForbidden).
		shows(`name="kept.display_name" value="Otto <K.>"`, `name="kept.role" value="admin"`, "Was du ausgefüllt hast, ist danach noch da").lacks("kept.csrf")
	var kept []string
	for i := 0; i < len(typed); i += 2 {
		kept = append(kept, "kept."+typed[i], typed[i+1])
	}
	kept = append(kept, "return", path+"?done=profile")
	anna.post("/pforte/reauth", append(kept, "password", "mistyped")...).want(http.StatusUnauthorized).shows(`name="kept.hex" value="#3a7d5c"`).lacks("mistyped")
	shown := anna.post("/pforte/reauth", append(kept, "password", adminPass)...).want(http.StatusOK).
		shows("Schick es bitte noch einmal ab.", `value="Otto <K.>"`, `value="#3a7d5c"`, `<option value="admin" selected>`, anna.cookies["csrf-token"])
	if strings.Contains(shown.body, "Otto <K.>") {
		t.Error("what was typed is not escaped")
	}
	anna.get(path).shows(`value="Otto"`) // nothing was changed
	anna.post(path, typed...).leadsTo(path + "?done=profile")

	// A passkey proves it without the form of the password: what was typed is sent once
	// more, with the token of the session before.
	f.advance(10*time.Minute + time.Second)
	anna.post(path, typed...).want(http.StatusForbidden).shows(`<form method="post" action="`+path+`" data-kept hidden>`, `name="display_name" value="Otto <K.>"`)
	anna.post("/pforte/reauth", "password", adminPass)
	anna.post(path, append(typed, "csrf", "")...).want(http.StatusForbidden).shows("Schick es bitte noch einmal ab.", `value="Otto <K.>"`)
}

// TestProof_AFormIsSentToItsOwnPageAfterwards: the answer is that of the page of the
// proof, and so is the browser's address.
func TestProof_AFormIsSentToItsOwnPageAfterwards(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	for _, path := range []string{"/pforte/admin/members/2", "/pforte/admin/invites", "/pforte/admin/security", security, security} {
		anna.post("/pforte/reauth", "password", adminPass, "return", path, "kept.do", "change").want(http.StatusOK).
			shows("Schick es bitte noch einmal ab.", `method="post" action="`+path+`">`).lacks(`method="post">`)
	}
}

// TestLogin_TypedFieldsOutliveTwoSteps sends a form whose session is gone.
func TestLogin_TypedFieldsOutliveTwoSteps(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	secret, _ := b.enroll()
	f.advance(time.Minute)
	b.post("/pforte/logout").leadsTo("/pforte/login?done=logout")
	b.post("/pforte/account", "display_name", "Otto der Erste", "color", "#34C759").want(http.StatusUnauthorized).shows(`name="kept.display_name" value="Otto der Erste"`)
	kept := []string{"return", "/pforte/account", "kept.display_name", "Otto der Erste", "kept.color", "#34C759"}
	b.post("/pforte/login", append(kept, "username", "otto", "password", userPass)...).want(http.StatusOK).shows("Sechs Ziffern aus der App.", `name="kept.display_name" value="Otto der Erste"`)
	b.post("/pforte/second", append(kept, "do", "verify", "code", "000000")...).want(http.StatusUnauthorized).shows(`name="kept.color" value="#34C759"`)
	b.post("/pforte/second", append(kept, "do", "verify", "code", codeOf(t, secret, f.Now()))...).want(http.StatusOK).
		shows("Schick es bitte noch einmal ab.", "<h1>Profil</h1>", `value="Otto der Erste"`, b.cookies["csrf-token"])
}

func TestPassword_WellKnownOnesAreRefused(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	for _, pw := range []string{"password1", "PASSWORD1", "zuhause "} { // the last is the household's name
		b.post(security, "do", "password", "current", userPass, "password", pw, "again", pw).want(http.StatusBadRequest).shows("Dieses Passwort ist zu bekannt.")
	}
	f.loggedIn("otto", userPass)
}

func TestDevices_AreListedAndEnded(t *testing.T) {
	f := newFixture(t)
	phone := f.browser()
	phone.headers.Set("User-Agent", "Mozilla/5.0 (Android 16; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0")
	phone.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/")
	b := f.otto()
	list := b.get(security).want(http.StatusOK).shows("Firefox auf Android", "Dieses Gerät", "Passwort")
	keys := regexp.MustCompile(`name="id" value="([0-9a-f]{64})"`).FindAllStringSubmatch(list.body, -1)
	if len(keys) != 2 {
		t.Fatalf("%d devices are listed", len(keys))
	}
	f.anna().post(security, "do", "end", "id", keys[1][1]).leadsTo(security + "?done=session")
	phone.get("/pforte/").want(http.StatusOK)
	b.post(security, "do", "others").leadsTo(security + "?done=others")
	phone.get("/pforte/").want(http.StatusSeeOther)
	b.get(security).lacks("Alle anderen Geräte abmelden")
	b.post(security, "do", "end", "id", keys[0][1]).leadsTo("/pforte/login?done=logout")
	b.get("/pforte/").want(http.StatusSeeOther)
}

// TestDevices_AreEndedThoughTheyHaveProvedAgainWhoTheyAre: since the page was loaded, which gave them other sessions.
func TestDevices_AreEndedThoughTheyHaveProvedAgainWhoTheyAre(t *testing.T) {
	f := newFixture(t)
	phone, b := f.otto(), f.otto()
	again := func() {
		for _, device := range []*browser{phone, b} {
			device.post("/pforte/reauth", "password", userPass).leadsTo("/pforte/")
		}
	}
	again()
	list := b.get(security).want(http.StatusOK)
	again()
	keys := regexp.MustCompile(`name="id" value="([0-9a-f]{64})"`).FindAllStringSubmatch(list.body, -1)
	b.post(security, "do", "end", "id", keys[1][1]).leadsTo(security + "?done=session")
	phone.get("/pforte/").want(http.StatusSeeOther)
	b.post(security, "do", "end", "id", keys[0][1]).leadsTo("/pforte/login?done=logout")
	b.get("/pforte/").want(http.StatusSeeOther)
}

func TestDevices_OfOneNameAreToldApart(t *testing.T) {
	f := newFixture(t)
	var last *browser
	for range 3 {
		last = f.browser()
		last.headers.Set("User-Agent", "Mozilla/5.0 (Android 16; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0")
		last.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/")
		f.clock.Advance(time.Minute)
	}
	f.otto()
	last.get(security).shows(`<strong>Firefox auf Android (3) <span class="badge good">Dieses Gerät`, "<strong>Firefox auf Android (1)</strong>", `aria-label="Abmelden: Firefox auf Android (2)"`,
		"<strong>Unbekanntes Gerät</strong>")
}

// TestDevices_AndKnownBrowsersAreOneList: a browser in which the user is logged in is listed once, and one in which
// they are not as logged out.
func TestDevices_AndKnownBrowsersAreOneList(t *testing.T) {
	f := newFixture(t)
	phone := f.browser()
	phone.headers.Set("User-Agent", "Mozilla/5.0 (Android 16; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0")
	phone.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/")
	b := f.browser()
	b.headers.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36")
	b.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/")
	f.audit.Drain()
	listed := func() (names []string) {
		list, _, _ := strings.Cut(strings.SplitN(b.get(security).want(http.StatusOK).body, `id="devices"`, 2)[1], "</section>")
		for _, name := range regexp.MustCompile(`<strong>([^<]*)(<span class="badge[^>]*>[^<]*)?`).FindAllStringSubmatch(list, -1) {
			names = append(names, strings.TrimSpace(tag.ReplaceAllString(name[0], " ")))
		}
		return names
	}
	if got := listed(); len(got) != 2 || got[0] != "Chrome auf Linux  Dieses Gerät" || got[1] != "Firefox auf Android" {
		t.Errorf("logged in on both: %q", got)
	}
	phone.post("/pforte/logout").want(http.StatusSeeOther)
	if got := listed(); len(got) != 2 || got[1] != "Firefox auf Android  abgemeldet" {
		t.Errorf("logged out of one: %q", got)
	}
	hash := regexp.MustCompile(`value="forget"[^>]*>[^<]*</button><input type="hidden" name="id" value="([^"]+)"`).FindStringSubmatch(b.get(security).body)
	b.post(security, "do", "forget", "id", hash[1]).leadsTo(security + "?done=forgotten")
	if got := listed(); len(got) != 1 {
		t.Errorf("after it was forgotten: %q", got)
	}
}

// TestNotices_SayWhoDidIt: another person, the operator, or oneself; nobody is made up where nobody is known.
func TestNotices_SayWhoDidIt(t *testing.T) {
	f := newFixture(t)
	f.otto().enroll()
	f.anna().post("/pforte/admin/members/2", "do", "factor").want(http.StatusSeeOther)
	if err := f.accounts.SecondFactor.ResetOf(audit.With(t.Context(), audit.Actor{Kind: audit.Operator, Name: "root"}), "otto"); err != nil {
		t.Fatal(err)
	}
	b := f.otto()
	b.post(security, "do", "password", "current", userPass, "password", "a new secret", "again", "a new secret").want(http.StatusSeeOther)
	_, token := f.anna().shown("/pforte/admin/members/2", "do", "reset-link").want(http.StatusOK).link()
	f.browser().post("/pforte/reset", "t", token, "password", "another secret", "again", "another secret").want(http.StatusSeeOther)
	f.loggedIn("otto", "another secret").get(security).shows("<strong>Anna hat deinen zweiten Faktor zurückgesetzt</strong>", "<strong>Server (Befehlszeile) hat deinen zweiten Faktor zurückgesetzt</strong>",
		"<strong>Du hast dein Passwort geändert</strong>", "<strong>Anna hat einen Link für dein neues Passwort erstellt</strong>", "<strong>Passwort über einen Link neu gesetzt</strong>", "Das war nicht vereinbart")
	f.anna().get(security).lacks("zurückgesetzt")
}

func TestDuty_OfASecondFactorKeepsNoMemberOut(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.get("/pforte/admin/security").want(http.StatusOK).shows("Noch ohne zweiten Faktor", "Otto", "400 Tage")
	anna.post("/pforte/admin/security", "required", "yes").leadsTo("/pforte/admin/security?done=profile")
	b := f.browser()
	b.post("/pforte/login", "username", "otto", "password", userPass, "return", "/pforte/account").leadsTo("/pforte/duty?return=%2Fpforte%2Faccount")
	b.get("/pforte/duty?return=/pforte/account").want(http.StatusOK).shows("Jetzt einrichten", "Später", `href="/pforte/account"`)
	b.get("/pforte/").want(http.StatusOK).shows("In deinem Haushalt brauchen alle einen zweiten Faktor.")
	b.enroll()
	b.get(security).want(http.StatusOK).shows("Gut geschützt").lacks(`value="disable"`)
	b.post(security, "do", "disable", "code", "000000").want(http.StatusForbidden).shows("Deinen letzten kannst du nicht entfernen.")
}

func TestSecondFactor_IsResetByAnAdmin(t *testing.T) {
	f := newFixture(t)
	otto, anna := f.otto(), f.anna()
	anna.get("/pforte/admin/members/2").lacks("Zweiten Faktor zurücksetzen")
	otto.enroll()
	anna.get("/pforte/admin/members/2").shows("Zweiten Faktor zurücksetzen")
	anna.post("/pforte/admin/members/2", "do", "factor").leadsTo("/pforte/admin/members/2?done=factor-reset")
	otto.get("/pforte/").want(http.StatusSeeOther)
	f.otto().get("/pforte/").shows("<strong>Anna hat deinen zweiten Faktor zurückgesetzt</strong>", "<span>Du hast den zweiten Faktor eingeschaltet</span>")
}

func TestPasskey_SaysWhyWithoutAnAddress(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.get(security).want(http.StatusOK).shows("Passkeys brauchen die öffentliche Adresse des Haushalts").lacks("data-passkey", "data-no-passkeys")
	f.browser().get("/pforte/login").lacks("data-passkey", "data-no-passkeys", "passkey.js")
}

// TestPasskey_ThatDoesNotWorkHereIsNotOffered: this server has no passkeys, and one that was
// added at another address.
func TestPasskey_ThatDoesNotWorkHereIsNotOffered(t *testing.T) {
	f := newFixture(t)
	otto := must(f.store.Users.ByID(t.Context(), 2))(t)
	key := factor.Credential{CredentialID: []byte("a credential"), RPID: "example.com", Record: "{}"}
	must(f.store.Passkeys.AddPasskey(t.Context(), 2, "Telefon", key, otto.SessionStamp, ""))(t)
	b := f.otto()
	b.get(security).want(http.StatusOK).lacks("enable-passkey")
	b.post(security, "do", "enable-passkey").want(http.StatusConflict).shows("Passkeys brauchen eine Adresse mit https.")
	b.get(security).shows("Das Passwort allein genügt noch", "Telefon").lacks("synchronisiert", "an ein Gerät gebunden") // nobody can tell
}

// TestPasskey_MayBeRequiredBesideThePassword: a passkey alone leaves the password enough, and one click changes that.
func TestPasskey_MayBeRequiredBesideThePassword(t *testing.T) {
	f := newHousehold(t)
	otto := must(f.store.Users.ByID(t.Context(), 2))(t)
	b := f.browser()
	b.host = "home.example.org"
	b.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/")
	const device = "Unbekanntes Gerät"
	b.get(security).shows("Das Passwort allein genügt noch", `name="name" value="`+device+`"`, `data-reauth="/pforte/reauth?return=%2Fpforte%2Faccount%2Fsecurity"`).lacks("enable-passkey")
	for i, name := range []string{device, device + " 2"} {
		key := factor.Credential{CredentialID: []byte{byte(i)}, RPID: "home.example.org", Record: "{}"}
		must(f.store.Passkeys.AddPasskey(t.Context(), 2, name, key, otto.SessionStamp, ""))(t)
	}
	b.get(security+"?done=passkey-added").shows("Soll das Passwort allein nicht mehr genügen?", "Ja, Passkey verlangen", `name="name" value="`+device+` 3"`)
	b.get(security).shows("Das Passwort allein genügt noch", "Ja, Passkey verlangen")
	b.shown(security, "do", "enable-passkey").want(http.StatusOK).shows("Der zweite Faktor ist eingeschaltet. Speichere jetzt diese zehn Codes.")
	b.get(security).shows("Gut geschützt").lacks("Das Passwort allein genügt noch")
	other := f.browser()
	other.host = "home.example.org"
	other.post("/pforte/login", "username", "otto", "password", userPass).leadsTo("/pforte/second?return=%2Fpforte%2F")
}

// TestProtection_APasskeyDoesNotReplaceTheSecondFactor: who knows the password logs in without it.
func TestProtection_APasskeyDoesNotReplaceTheSecondFactor(t *testing.T) {
	f := newFixture(t)
	anna, otto := f.anna(), must(f.store.Users.ByID(t.Context(), 2))(t)
	shown := func(badge string) {
		t.Helper()
		for _, path := range []string{"/pforte/admin/members", "/pforte/admin/members/2"} {
			anna.get(path).want(http.StatusOK).shows(badge + "</span>")
		}
	}
	shown(`<span class="badge">Nur Passwort`)
	key := factor.Credential{CredentialID: []byte("a credential"), RPID: "example.com", Record: "{}"}
	must(f.store.Passkeys.AddPasskey(t.Context(), 2, "Telefon", key, otto.SessionStamp, ""))(t)
	shown(`<span class="badge">Passkey, Passwort genügt noch`)
	anna.get("/pforte/admin/security").shows(`<span class="badge">Passkey, Passwort genügt noch</span>`)
	f.otto().enroll()
	shown(`<span class="badge good">Zweiter Faktor`)
	anna.get("/pforte/admin/security").lacks("Passkey, Passwort genügt noch")
}

// TestDestructive_ActsAskFirst: their buttons are behind a step that says what happens, without a script.
func TestDestructive_ActsAskFirst(t *testing.T) {
	f := newFixture(t)
	f.group("kids", "Kinder")
	f.application("dav", "/dav/", "login", true)
	anna := f.anna()
	f.otto().newToken("dav")
	f.otto().enroll()
	for range 2 {
		anna.newToken("dav")
	}
	f.anna()
	anna.shown("/pforte/admin/invites", "do", "invite").want(http.StatusOK)
	for path, acts := range map[string][]string{
		"/pforte/admin/members/2":   {"factor", "sessions", "disable", "delete", "revoke"},
		"/pforte/admin/invites":     {"revoke"},
		"/pforte/admin/groups/kids": {"remove"},
		"/pforte/admin/apps/dav":    {"remove"},
		"/pforte/account/tokens":    {"all"},
		security:                    {"others"},
	} {
		page := anna.get(path).want(http.StatusOK).body
		for _, act := range acts {
			before, _, found := strings.Cut(page, `class="button danger" name="do" value="`+act+`"`)
			if !found || strings.Count(before, "<details") != strings.Count(before, "</details>")+1 || strings.Count(page, `value="`+act+`"`) != 1 {
				t.Errorf("%s: %s is not behind a step", path, act)
			}
		}
	}
}

func TestPage_IsInBothLanguages(t *testing.T) {
	f := newFixture(t)
	for lang, other := range map[string]string{"de": "English", "en": "Deutsch"} {
		anna := f.anna()
		anna.headers.Set("Accept-Language", lang)
		for _, path := range []string{
			"/pforte/", "/pforte/logout", "/pforte/reauth", "/pforte/duty", "/pforte/account", security,
			"/pforte/admin/members", "/pforte/admin/members/2", "/pforte/admin/invites", "/pforte/admin/security", "/pforte/admin/audit", "/pforte/forgot",
		} {
			page := anna.get(path).want(http.StatusOK).shows(`<html lang="`+lang+`">`, other)
			seen := map[string]bool{}
			for _, id := range idShown.FindAllString(page.body, -1) {
				if seen[id] {
					t.Errorf("%s: there are two with%s", path, id)
				}
				seen[id] = true
			}
		}
	}
}

// What was changed is said so, though the sessions that end with it are only ended later: no request is admitted with
// them any more (AUTH-2.17).
func TestChanges_AreDoneThoughSessionsCouldNotBeEnded(t *testing.T) {
	f := newFixture(t)
	anna, otto, other := f.anna(), f.otto(), f.otto()
	f.failing["revoke"] = true
	const security = "/pforte/account/security"
	otto.post(security, "do", "password", "current", userPass, "password", "new secret", "again", "new secret").
		leadsTo(security + "?done=password")
	other.get(security).want(http.StatusSeeOther)
	otto.get(security).want(http.StatusOK)
	anna.post("/pforte/admin/members/2", "do", "sessions").leadsTo("/pforte/admin/members/2?done=sessions")
	otto.get(security).want(http.StatusSeeOther)
}

// TestLogin_ThatFailsMakesNoBrowserKnown: only one that succeeds sets the cookie by which a browser is known.
func TestLogin_ThatFailsMakesNoBrowserKnown(t *testing.T) {
	f := newFixture(t)
	for pass, want := range map[string]int{"wrong": http.StatusUnauthorized, userPass: http.StatusSeeOther} {
		got := f.browser().post("/pforte/login", "username", "otto", "password", pass).want(want)
		if known := strings.Contains(strings.Join(got.header.Values("Set-Cookie"), "\n"), "svc.dev="); known != (pass == userPass) {
			t.Errorf("%s: the browser is made known: %t", pass, known)
		}
	}
}
