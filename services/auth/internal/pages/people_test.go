package pages_test

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/user"
)

const (
	otto      = "/pforte/admin/members/2"
	rulesPage = "/pforte/admin/security"
	leave     = "/pforte/account/delete"
)

func TestHousehold_NameIsChangedByAdmins(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.post(rulesPage, "do", "name", "household", " Familie Kern ").leadsTo(rulesPage + "?done=profile")
	anna.get(rulesPage).shows(`value="Familie Kern"`, "<bdi>Familie Kern</bdi>")
	f.browser().get("/pforte/login").shows("<bdi>Familie Kern</bdi>")
	anna.post(rulesPage, "do", "name", "household", "Kern\u202e").want(http.StatusBadRequest).shows(`href="#household"`, `aria-describedby="household-why`)
	f.otto().post(rulesPage, "do", "name", "household", "Otto").want(http.StatusForbidden)
	anna.get("/pforte/admin/audit").shows("Haushalt umbenannt", "(kein Name) → Familie Kern")
	f.advance(11 * time.Minute)
	anna.post(rulesPage, "do", "name", "household", "Kern").shows("Bestätigen")
	anna.get(rulesPage).lacks(`value="Kern"`)
}

func TestUsername_IsChangedByAdminsAndStaysItsPersons(t *testing.T) {
	f := newFixture(t)
	anna, b := f.anna(), f.otto()
	anna.get(otto).shows("Anwendungen hinter Pforte sehen ihn sofort")
	for name, why := range map[string]string{"anna": "schon vergeben", "-x-": "nicht wählen", "o o": "3 bis 64", "": "3 bis 64"} {
		anna.post(otto, "do", "rename", "username", name).shows(why, `href="#username"`)
	}
	anna.post(otto, "do", "rename", "username", "ottilie").leadsTo(otto + "?done=renamed")
	b.get("/pforte/account").want(http.StatusOK).shows("<dd>ottilie</dd>") // the session goes on
	b.get("/pforte/").shows("Anna hat deinen Benutzernamen geändert")
	f.browser().post("/pforte/login", "username", "otto", "password", userPass).want(http.StatusUnauthorized)
	f.loggedIn("ottilie", userPass)
	anna.post("/pforte/admin/invites", "do", "invite", "username", "otto", "former", "yes").want(http.StatusConflict).shows("schon vergeben")
	anna.post("/pforte/admin/members/1", "do", "rename", "username", "otto").want(http.StatusConflict).shows("anderes Mitglied")
	b.post(otto, "do", "rename", "username", "otto").want(http.StatusForbidden)
	anna.post(otto, "do", "rename", "username", "otto").leadsTo(otto + "?done=renamed")
	anna.get("/pforte/admin/audit").shows("Benutzername geändert", "otto → ottilie", "ottilie → otto")
}

func TestDisabled_AccountEndsAtTheNextRequestAndSaysWhyToItsPersonAlone(t *testing.T) {
	f := newFixture(t)
	anna, b := f.anna(), f.otto()
	anna.post(otto, "do", "disable").leadsTo(otto + "?done=disabled")
	b.get("/pforte/account").leadsTo("/pforte/login?return=%2Fpforte%2Faccount")
	right := f.browser().post("/pforte/login", "username", "otto", "password", userPass)
	right.want(http.StatusForbidden).shows("Dieses Konto ist deaktiviert oder abgelaufen.")
	wrong := f.browser().post("/pforte/login", "username", "otto", "password", "wrong password")
	nobody := f.browser().post("/pforte/login", "username", "nobody", "password", "wrong password")
	if wrong.status != nobody.status || wrong.text() != nobody.text() {
		t.Errorf("a stranger learns of the account: %d %s, %d %s", wrong.status, wrong.text(), nobody.status, nobody.text())
	}
	f.audit.Drain()
	anna.get("/pforte/admin/members").shows(`<span class="badge bad">Deaktiviert</span>`)
	anna.get("/pforte/admin/audit").shows("Konto deaktiviert", "Anmeldung abgelehnt")
	anna.post(otto, "do", "enable").leadsTo(otto + "?done=enabled")
	f.otto().get("/pforte/account").want(http.StatusOK)
	b.get("/pforte/account").want(http.StatusSeeOther)
	anna.post("/pforte/admin/members/1", "do", "disable").want(http.StatusBadRequest).shows("Administrator")
	f.otto().post("/pforte/admin/members/1", "do", "disable").want(http.StatusForbidden)
}

func TestDisabled_AccountFinishesNoLogin(t *testing.T) {
	f := newFixture(t)
	secret, _ := f.otto().enroll()
	f.advance(time.Minute)
	b := f.browser()
	b.post("/pforte/login", "username", "otto", "password", userPass).want(http.StatusSeeOther)
	f.anna().post(otto, "do", "disable").want(http.StatusSeeOther)
	b.post("/pforte/second", "code", codeOf(t, secret, f.Now())).leadsTo("/pforte/login?done=expired")
	b.get("/pforte/account").want(http.StatusSeeOther)
}

func TestGuest_EndsWithTheirLastDay(t *testing.T) {
	f := newFixture(t) // 2026-03-01, 12:00
	anna, b, before := f.anna(), f.otto(), f.otto()
	for _, day := range []string{"2026-02-28", "2026-02-30", "morgen"} {
		anna.post(otto, "do", "guest", "last_day", day).want(http.StatusBadRequest).shows(`href="#last_day"`, `value="`+day+`"`)
	}
	anna.post(otto, "do", "guest", "last_day", "2026-03-02").leadsTo(otto + "?done=profile")
	anna.get(otto).shows(`value="2026-03-02"`, "Gast bis 2. März 2026")
	anna.get("/pforte/admin/members").shows(`<span class="badge">Gast bis 2. März 2026</span>`)
	anna.post(otto, "do", "change", "display_name", "Otto", "color", "#007AFF", "role", "admin").want(http.StatusBadRequest).shows("Ein Gast kann nicht")
	f.advance(36*time.Hour - time.Second)
	b.get("/pforte/account").want(http.StatusOK)
	f.advance(time.Second)
	b.get("/pforte/account").want(http.StatusSeeOther)
	f.browser().post("/pforte/login", "username", "otto", "password", userPass).want(http.StatusForbidden).shows("abgelaufen")
	anna = f.anna()
	anna.get("/pforte/admin/members").shows(`<span class="badge bad">Gast, abgelaufen</span>`)
	anna.post(otto, "do", "guest", "last_day", "").leadsTo(otto + "?done=profile")
	f.otto().get("/pforte/account").want(http.StatusOK)
	before.get("/pforte/account").want(http.StatusSeeOther)
	anna.get("/pforte/admin/members/1").lacks("last_day")
}

func TestAccount_IsDeletedByItsUser(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	b.get("/pforte/account").shows(`href="/pforte/account/delete"`)
	b.get(leave).want(http.StatusOK).shows("„otto“")
	b.post(leave, "confirm", "Otto").want(http.StatusBadRequest).shows(`href="#confirm"`)
	f.advance(11 * time.Minute)
	b.post(leave, "confirm", "otto").shows("Bestätigen")
	b = f.otto()
	b.post(leave, "confirm", "otto").leadsTo("/pforte/login?done=left")
	if len(b.cookies["svc.sid"]) > 0 {
		t.Error("the browser keeps the session's cookie")
	}
	b.get("/pforte/login?done=left").shows("Dein Konto ist gelöscht.")
	f.browser().post("/pforte/login", "username", "otto", "password", userPass).want(http.StatusUnauthorized)
	anna := f.anna()
	anna.get("/pforte/admin/audit").shows("Konto gelöscht")
	anna.post(leave, "confirm", "anna").want(http.StatusBadRequest).shows("Mindestens ein Mitglied", `href="#role"`, `id="role"`)
	anna.get("/pforte/account").want(http.StatusOK)
}

// upload sends a form with a file.
func (b *browser) upload(file []byte, fields ...string) reply {
	b.f.t.Helper()
	return b.do(b.uploading(file, fields...))
}

// uploading returns the request of upload.
func (b *browser) uploading(file []byte, fields ...string) *http.Request {
	b.f.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	if len(fields) == 0 {
		fields = []string{"csrf", b.cookies["csrf-token"]}
	}
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	part := must(w.CreateFormFile("picture", "me.svg"))(b.f.t)
	_, _ = part.Write(file)
	_ = w.Close()
	r := httptest.NewRequestWithContext(b.f.t.Context(), http.MethodPost, "/pforte/account/picture", &body)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// TestPicture_FewAreReadAtOnce: 64 files of 900 KB at once, each waiting for its turn, took 320 MB.
func TestPicture_FewAreReadAtOnce(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	file := pngOf(t, 8, 8)
	var reading, most atomic.Int32
	var all sync.WaitGroup
	for range 12 {
		r := b.uploading(file)
		r.AddCookie(&http.Cookie{Name: "svc.sid", Value: b.cookies["svc.sid"]})
		r.ContentLength = -1
		r.Body = io.NopCloser(&meanwhile{r.Body, func() {
			most.Store(max(most.Load(), reading.Add(1)))
			time.Sleep(50 * time.Millisecond)
			reading.Add(-1)
		}})
		all.Go(func() {
			w := httptest.NewRecorder()
			if f.handler.ServeHTTP(w, r); w.Code != http.StatusSeeOther {
				t.Errorf("got %d", w.Code)
			}
		})
	}
	all.Wait()
	if most.Load() > 4 {
		t.Errorf("%d were read at once", most.Load())
	}
}

// meanwhile is a body before which something else happens.
type meanwhile struct {
	io.Reader
	do func()
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	return m.Reader.Read(p)
}

func pngOf(t *testing.T, width, height int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for x := range width {
		for y := range height {
			m.Set(x, y, color.RGBA{R: 200, A: 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var pictureShown = regexp.MustCompile(`/pforte/pictures/\d+/[0-9a-f]{64}`)

func TestPicture_IsEncodedAnewAndSeenByTheHouseholdAlone(t *testing.T) {
	f := newFixture(t)
	anna, b := f.anna(), f.otto()
	file := append(pngOf(t, 300, 200), "<script>alert(1)</script>"...)
	b.upload(file).leadsTo("/pforte/account?done=picture")
	url := pictureShown.FindString(b.get("/pforte/account").body)
	if url == "" || !strings.Contains(anna.get("/pforte/admin/members").body, url) {
		t.Fatal("the picture is not shown")
	}
	got := anna.get(url).want(http.StatusOK)
	if m, err := jpeg.Decode(strings.NewReader(got.body)); err != nil || m.Bounds() != image.Rect(0, 0, 512, 512) || strings.Contains(got.body, "script") {
		t.Errorf("got %v, %v", m.Bounds(), err)
	}
	for name, want := range map[string]string{
		"Content-Type": "image/jpeg", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
		"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "private, max-age=604800, immutable",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q", name, got.header.Get(name))
		}
	}
	f.browser().get(url).want(http.StatusSeeOther).lacks("JFIF")
	for _, other := range []string{strings.Replace(url, "/2/", "/1/", 1), "/pforte/pictures/2/x", "/pforte/pictures/x/" + url[len(url)-64:], "/pforte/pictures/2/" + strings.Repeat("0", 64)} {
		anna.get(other).want(http.StatusNotFound)
	}
	b.post("/pforte/account/picture", "do", "remove").leadsTo("/pforte/account?done=picture-removed")
	anna.get(url).want(http.StatusNotFound)
	b.upload(file).want(http.StatusSeeOther)
	b.post("/pforte/admin/members/2", "do", "picture").want(http.StatusForbidden)
	anna.get(otto).shows("Bild entfernen")
	anna.post(otto, "do", "picture").leadsTo(otto + "?done=picture-removed")
	b.get("/pforte/account").lacks("/pforte/pictures/")
}

// The thief of a session's cookie could hold back the body until the session has ended.
func TestPicture_OfASessionThatEndedMeanwhileIsNotKept(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	r := b.uploading(pngOf(t, 30, 20))
	owner := b.copyOf()
	r.Body = io.NopCloser(&meanwhile{r.Body, func() { owner.post("/pforte/logout").want(http.StatusSeeOther) }})
	b.do(r).shows("Deine Anmeldung ist abgelaufen")
	f.otto().get("/pforte/account").lacks("/pforte/pictures/")
}

// TestPicture_MayTakeLongerThanTheWorkForARequest: a picture of some 100 KB does on a slow line, and the proxy does not
// wait for its end.
func TestPicture_MayTakeLongerThanTheWorkForARequest(t *testing.T) {
	b := newFixture(t).otto()
	r := b.uploading(pngOf(t, 30, 20))
	r.Body = io.NopCloser(&meanwhile{r.Body, func() { time.Sleep(5 * time.Second) }})
	b.do(r).want(http.StatusSeeOther)
	b.get("/pforte/account").shows("/pforte/pictures/")
}

func TestPicture_OfAnotherKindOrSizeIsRefusedAtItsField(t *testing.T) {
	f := newFixture(t)
	b := f.otto()
	for what, file := range map[string][]byte{
		"an SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), "nothing": nil, "a broken one": pngOf(t, 9, 9)[:40],
		"one of many bytes": append(pngOf(t, 9, 9), make([]byte, 900_000)...), "a body of many bytes": make([]byte, 2_000_000),
		"one of many pixels": pngOf(t, 4000, 2200),
	} {
		got := b.upload(file).want(http.StatusBadRequest).shows(`href="#picture"`, `id="picture-why"`)
		if !strings.Contains(got.body, "Otto") {
			t.Errorf("%s: the page is not the user's", what)
		}
	}
	b.upload(pngOf(t, 9, 9), "csrf", "x").want(http.StatusForbidden)
	stranger := f.browser()
	stranger.upload(pngOf(t, 9, 9)).lacks("<img")
	b.get("/pforte/account").lacks("/pforte/pictures/")
}

func TestInvite_OfAGuestIsMadeOnItsPage(t *testing.T) {
	f := newFixture(t)
	anna := f.anna()
	anna.post("/pforte/admin/invites", "do", "invite", "username", "gast", "last_day", "2001-01-01").want(http.StatusBadRequest).shows(`href="#last_day"`, `value="2001-01-01"`, `value="gast"`)
	anna.post("/pforte/admin/invites", "do", "invite", "username", "gast", "last_day", "2026-03-02").want(http.StatusSeeOther)
	anna.get("/pforte/admin/invites").want(http.StatusOK).shows("Gast bis 2. März 2026")
}

const newPassword = "a new long password"

func TestPasskeyOnly_AccountIsToldWhatItHas(t *testing.T) {
	f := newFixture(t)
	otto := f.otto()
	if err := f.store.Users.Rehash(t.Context(), 2, must(f.store.Users.ByID(t.Context(), 2))(t).PasswordHash, user.NoPassword); err != nil {
		t.Fatal(err)
	}
	otto.get("/pforte/account/security").want(http.StatusOK).shows("Du hast kein Passwort und meldest dich mit Passkeys an.", `name="do" value="first-password"`).lacks(`name="current"`)
	otto.get("/pforte/reauth").want(http.StatusOK).lacks(`type="password"`)
	otto.post("/pforte/account/security", "do", "first-password", "password", "short").want(http.StatusBadRequest).shows(`href="#password"`)
	otto.post("/pforte/account/security", "do", "first-password", "password", "password1").want(http.StatusBadRequest).
		shows("Dieses Passwort ist zu bekannt.")
	otto.post("/pforte/account/security", "do", "first-password", "password", newPassword).leadsTo("/pforte/account/security?done=password")
	otto.post("/pforte/account/security", "do", "first-password", "password", "another long one").leadsTo("/pforte/account/security?done=password")
	f.loggedIn("otto", newPassword).get("/pforte/account/security").want(http.StatusOK).shows(`name="current"`)
}
