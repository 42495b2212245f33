package access_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/access"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/token"
)

var update = flag.Bool("update", false, "write the golden decisions anew")

var portal = access.Portal{Origin: "https://home.example.org"}

// photos has a host of its own, calendar a path.
var (
	photos   = application.Application{Slug: "photos", URL: "https://photos.example.org", Rule: application.Login, Tokens: true}
	calendar = application.Application{Slug: "calendar", URL: "/calendar/", Rule: application.Login, Tokens: true}
)

// callers are who comes, by the names of the golden table.
var callers = []struct {
	name string
	access.Caller
}{
	{"anonymous", access.Caller{}},
	{"member", access.Caller{Kind: access.WithSession, UserID: 2, Username: "otto", DisplayName: "Otto", Role: "member"}},
	{"group", access.Caller{Kind: access.WithSession, UserID: 3, Username: "paul", DisplayName: "Paul", Role: "member", Groups: []string{"kids"}}},
	{"admin", access.Caller{Kind: access.WithSession, UserID: 1, Username: "anna", DisplayName: "Anna", Role: "admin"}},
	{"token", access.Caller{Kind: access.WithToken, UserID: 3, Username: "paul", DisplayName: "Paul", Role: "member", Groups: []string{"kids"}, Applications: []string{"calendar", "photos"}}},
	{"read-only", access.Caller{Kind: access.WithToken, UserID: 3, Username: "paul", DisplayName: "Paul", Role: "member", Groups: []string{"kids"}, Applications: []string{"calendar", "photos"}, ReadOnly: true}},
}

// caller returns one of callers.
func caller(name string) access.Caller {
	for _, c := range callers {
		if c.name == name {
			return c.Caller
		}
	}
	panic(name)
}

// to returns a request to photos as a browser sends it: "navigate", "fetch" or "WebSocket",
// from a page of photos.
func to(how, method string) access.Request {
	h := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}, "Accept": {"*/*"}}
	switch how {
	case "navigate":
		h.Set("Sec-Fetch-Mode", "navigate")
		h.Set("Sec-Fetch-Dest", "document")
		h.Set("Accept", "text/html,*/*;q=0.8")
	case "WebSocket":
		h.Set("Sec-Fetch-Mode", "websocket")
		h.Set("Connection", "Upgrade")
		h.Set("Upgrade", "websocket")
	}
	if how == "WebSocket" || method == http.MethodPost {
		h.Set("Origin", photos.URL)
	}
	return access.Request{Method: method, URI: "/album?x=1", Scheme: "https", Host: "photos.example.org", Header: h}
}

// with returns a request with other headers; an empty value removes one.
func with(r access.Request, pairs ...string) access.Request {
	r.Header = r.Header.Clone()
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Del(pairs[i])
		if pairs[i+1] != "" {
			r.Header.Set(pairs[i], pairs[i+1])
		}
	}
	return r
}

// device is a request of a client that is no browser.
func device(method string, pairs ...string) access.Request {
	return with(access.Request{Method: method, URI: "/dav/", Scheme: "https", Host: "photos.example.org", Header: http.Header{"Accept": {"*/*"}}}, pairs...)
}

func decide(r access.Request, app application.Application, by access.Caller) access.Decision {
	return access.Decide(r, app, true, portal, by)
}

// TestDecide_Table compares all decisions about requests of photos' own pages with
// testdata/decisions.txt.
func TestDecide_Table(t *testing.T) {
	const file = "testdata/decisions.txt"
	var b strings.Builder
	for _, rule := range []application.Rule{application.Login, application.Admin, application.Group} {
		app := photos
		if app.Rule = rule; rule == application.Group {
			app.Group = "kids"
		}
		for _, by := range callers {
			for _, how := range []string{"navigate", "fetch", "WebSocket"} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					d := decide(to(how, method), app, by.Caller)
					row := fmt.Sprintf("%-6s %-10s %-10s %-5s %d %-9s %s", rule, by.name, how, method, d.Status, d.Action, d.Reason)
					b.WriteString(strings.TrimRight(row, " ") + "\n")
					if passes := d.Action == access.Pass; passes != (d.Status == http.StatusOK) || passes != (d.Reason == "") {
						t.Errorf("%s %s %s %s: %+v", rule, by.name, how, method, d)
					}
				}
			}
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(golden), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("differs (-golden +decided):\n%s", diff)
	}
}

func TestDecide_AHostIsThatOfItsApplication(t *testing.T) {
	member := caller("member")
	for host, want := range map[string]bool{
		"photos.example.org": true, "PHOTOS.example.ORG": true, "photos.example.org:443": true, "photos.example.org.": true, "photos.example.org.:443": true,
		"photos.example.org:8443": false, "photos.example.org:80": false, "photos.example.org..": false, "home.example.org": false, "a.photos.example.org": false, "photos.example.org.evil.example": false,
		"photos.example.orgevil": false, "evilphotos.example.org": false, "photos.example.org@evil.example": false, "evil.example@photos.example.org": false, "photos.example.org/x": false, "photos.example.org,home.example.org": false,
		"phötos.example.org": false, "photos.example.org\n": false, "photos .example.org": false, "photos%2eexample.org": false, "photos\u3002example.org": false, "photos.example.org:": false,
	} {
		r := to("fetch", http.MethodGet)
		r.Host = host
		if d := decide(r, photos, member); (d.Action == access.Pass) != want || !want && d.Reason != access.UnknownApp {
			t.Errorf("%q: %+v", host, d)
		}
		r.Header.Set("X-Forwarded-Host", "photos.example.org") // what the client sends does not count
		if d := decide(r, photos, member); (d.Action == access.Pass) != want {
			t.Errorf("%q with a header: %+v", host, d)
		}
	}
	idn := photos
	idn.URL = "https://xn--bcher-kva.example"
	r := to("fetch", http.MethodGet)
	r.Host = "XN--bcher-kva.example"
	if d := decide(r, idn, member); d.Action != access.Pass {
		t.Errorf("a name in Punycode: %+v", d)
	}
}

// TestDecide_AnApplicationWithAPathIsOnThePortal also checks that it is on any host while
// that is unset.
func TestDecide_AnApplicationWithAPathIsOnThePortal(t *testing.T) {
	r := to("navigate", http.MethodGet)
	if d := decide(r, calendar, caller("member")); d.Action != access.Page || d.Reason != access.UnknownApp {
		t.Errorf("on another host: %+v", d)
	}
	if d := access.Decide(r, calendar, true, access.Portal{}, caller("member")); d.Action != access.Pass {
		t.Errorf("without a portal: %+v", d)
	}
	if d := access.Decide(r, calendar, true, access.Portal{}, caller("anonymous")); d.Action != access.Login {
		t.Errorf("anonymous, without a portal: %+v", d)
	}
	r.Host = "home.example.org"
	if d := decide(r, calendar, caller("member")); d.Action != access.Pass {
		t.Errorf("on the portal's host: %+v", d)
	}
	if d := decide(r, calendar, caller("anonymous")); d.Action != access.Login || d.Status != http.StatusSeeOther {
		t.Errorf("anonymous, on the portal's host: %+v", d)
	}
}

func TestDecide_RefusesARequestWithoutItsParts(t *testing.T) {
	for what, change := range map[string]func(*access.Request){
		"method": func(r *access.Request) { r.Method = "" }, "address": func(r *access.Request) { r.URI = "" }, "host": func(r *access.Request) { r.Host = "" },
	} {
		r := to("navigate", http.MethodGet)
		change(&r)
		if d := decide(r, photos, caller("admin")); d.Status != http.StatusBadRequest || d.Action != access.Refuse {
			t.Errorf("without %s: %+v", what, d)
		}
	}
	if d := access.Decide(to("fetch", http.MethodGet), application.Application{}, false, portal, caller("admin")); d.Status != http.StatusForbidden || d.Reason != access.UnknownApp {
		t.Errorf("an unknown application: %+v", d)
	}
	if d := access.Decide(to("navigate", http.MethodGet), photos, true, access.Portal{}, caller("anonymous")); d.Status != http.StatusUnauthorized || d.Action != access.Refuse {
		t.Errorf("a host without a portal to log in: %+v", d)
	}
}

// TestDecide_OnlyANavigationIsRedirected has no session.
func TestDecide_OnlyANavigationIsRedirected(t *testing.T) {
	page, plain := to("navigate", http.MethodGet), device(http.MethodGet, "Accept", "text/html,*/*")
	for what, c := range map[string]struct {
		r    access.Request
		want bool
	}{
		"a navigation":                 {page, true},
		"its HEAD":                     {to("navigate", http.MethodHead), true},
		"a form":                       {to("navigate", http.MethodPost), false},
		"a frame":                      {with(page, "Sec-Fetch-Dest", "iframe"), false},
		"a service worker's request":   {with(page, "Sec-Fetch-Mode", "cors"), false},
		"a page by a service worker":   {with(page, "Sec-Fetch-Dest", "empty"), true},
		"half of the metadata":         {with(page, "Sec-Fetch-Mode", ""), false},
		"only the site of it":          {with(page, "Sec-Fetch-Mode", "", "Sec-Fetch-Dest", ""), false},
		"plain http":                   {plain, true},
		"XMLHttpRequest on plain http": {with(plain, "X-Requested-With", "XMLHttpRequest"), false},
		"fetch on plain http":          {with(plain, "Accept", "application/json"), false},
		"a WebSocket on plain http":    {with(plain, "Upgrade", "websocket"), false},
		"any type":                     {device(http.MethodGet), false},
		"a device":                     {device("PROPFIND"), false},
	} {
		d := decide(c.r, photos, caller("anonymous"))
		if (d.Action == access.HandOver) != c.want || !c.want && d.Status != http.StatusUnauthorized {
			t.Errorf("%s: %+v", what, d)
		}
	}
}

// TestDecide_WhoSendsAFormReadsAPage also checks that programs do not, whatever refuses them.
func TestDecide_WhoSendsAFormReadsAPage(t *testing.T) {
	form, plain := to("navigate", http.MethodPost), device(http.MethodPost, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	strict, adminsOnly := photos, photos
	strict.SecondFactor, adminsOnly.Rule = true, application.Admin
	for what, c := range map[string]struct {
		r    access.Request
		want bool
	}{
		"a form":                                {form, true},
		"a form by a service worker":            {with(form, "Sec-Fetch-Dest", "empty"), true},
		"a form in a frame":                     {with(form, "Sec-Fetch-Dest", "iframe"), false},
		"half of the metadata":                  {with(form, "Sec-Fetch-Mode", ""), false},
		"fetch":                                 {with(to("fetch", http.MethodPost), "Accept", "text/html"), false},
		"a form on plain http":                  {plain, true},
		"XMLHttpRequest on plain http":          {with(plain, "X-Requested-With", "XMLHttpRequest"), false},
		"fetch on plain http":                   {with(plain, "Accept", "*/*"), false},
		"a program that would take a page, too": {with(plain, "Accept", "application/json, text/html;q=0.5"), false},
		"a script that asks for a stream first": {with(plain, "Accept", "text/vnd.turbo-stream.html, text/html, application/xhtml+xml"), false},
		"PUT":                                   {access.Request{Method: http.MethodPut, URI: form.URI, Scheme: form.Scheme, Host: form.Host, Header: form.Header}, false},
		"OPTIONS":                               {access.Request{Method: http.MethodOptions, URI: form.URI, Scheme: form.Scheme, Host: form.Host, Header: form.Header}, false},
		"a WebSocket":                           {with(form, "Sec-WebSocket-Key", "eA=="), false},
		"in lower case":                         {access.Request{Method: "post", URI: form.URI, Scheme: form.Scheme, Host: form.Host, Header: form.Header}, false},
	} {
		for reason, d := range map[access.Reason]access.Decision{
			access.NotLoggedIn:        decide(c.r, photos, caller("anonymous")),
			access.AppDenied:          decide(c.r, adminsOnly, caller("member")),
			access.SecondFactorNeeded: decide(c.r, strict, caller("member")),
			access.ForeignPage:        decide(with(c.r, "Sec-Fetch-Site", "", "Origin", "https://evil.example"), photos, caller("member")),
			access.UnknownApp:         access.Decide(c.r, photos, false, portal, caller("member")),
		} {
			status := http.StatusForbidden
			if reason == access.NotLoggedIn {
				status = http.StatusUnauthorized
			}
			if reason == access.ForeignPage && c.r.Method == http.MethodOptions {
				continue // which changes nothing
			}
			if (d.Action == access.Page) != c.want || !c.want && d.Action != access.Refuse || d.Reason != reason || d.Status != status {
				t.Errorf("%s, %s: %+v", what, reason, d)
			}
		}
		if d := decide(c.r, photos, access.Caller{Kind: access.WithWrongToken}); d.Action != access.Refuse {
			t.Errorf("%s with a wrong token: %+v", what, d)
		}
	}
	if d := access.Decide(form, photos, true, access.Portal{}, caller("anonymous")); d.Action != access.Refuse {
		t.Errorf("a host without a portal to log in: %+v", d)
	}
}

func TestPageOf_IsOfTheSameOrigin(t *testing.T) {
	form := to("navigate", http.MethodPost)
	for referer, want := range map[string]string{
		"https://photos.example.org/new?x=1&y=%2F#z": "/new?x=1&y=%2F", "https://PHOTOS.example.org:443/new": "/new", "https://photos.example.org": "/",
		"https://photos.example.org/%2e%2e/x": "/%2e%2e/x", // Safe judges it
		"":                                    "", "/new": "", "//photos.example.org/new": "", "http://photos.example.org/new": "", "https://photos.example.org:8443/new": "",
		"https://evil.example/new": "", "https://photos.example.org.evil.example/": "", "https://photos.example.org@evil.example/": "", "https://evil.example@photos.example.org/": "",
		"https:photos.example.org/new": "", "javascript:alert(1)//photos.example.org/": "", "https://photos.example.org\\@evil.example/": "", "https://photos.example.org/\r\nX: y": "",
	} {
		if got := access.PageOf(with(form, "Referer", referer)); got != want {
			t.Errorf("%q: %q, want %q", referer, got, want)
		}
	}
	two := with(form)
	two.Header["Referer"] = []string{"https://photos.example.org/a", "https://photos.example.org/b"}
	if got := access.PageOf(two); got != "" {
		t.Errorf("two: %q", got)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if got := access.PageOf(with(to("navigate", method), "Referer", "https://photos.example.org/a")); got != "/album?x=1" {
			t.Errorf("%s: %q", method, got)
		}
	}
}

func TestDecide_AChangeFromAForeignPageIsRefused(t *testing.T) {
	post, ws := to("fetch", http.MethodPost), to("WebSocket", http.MethodGet)
	two := with(post)
	two.Header["Sec-Fetch-Site"] = []string{"cross-site", "same-origin"}
	twoOrigins := with(ws)
	twoOrigins.Header["Origin"] = []string{photos.URL, "https://evil.example"}
	plain := with(post, "Sec-Fetch-Site", "")
	for what, c := range map[string]struct {
		r    access.Request
		want bool
	}{
		"its own page":                       {post, true},
		"typed by the user":                  {with(post, "Sec-Fetch-Site", "none"), true},
		"a sibling's page":                   {with(post, "Sec-Fetch-Site", "same-site"), false},
		"a foreign page":                     {with(post, "Sec-Fetch-Site", "cross-site"), false},
		"a foreign page that changes DAV":    {func() access.Request { r := with(post, "Sec-Fetch-Site", "cross-site"); r.Method = "MKCOL"; return r }(), false},
		"two of the header":                  {two, false},
		"by Origin":                          {plain, true},
		"by Origin, with its port":           {with(plain, "Origin", "https://PHOTOS.example.org:443"), true},
		"by a foreign Origin":                {with(plain, "Origin", "https://evil.example"), false},
		"by another scheme":                  {with(plain, "Origin", "http://photos.example.org"), false},
		"by another port":                    {with(plain, "Origin", "https://photos.example.org:8443"), false},
		"by a null Origin":                   {with(plain, "Origin", "null"), false},
		"by neither, so no browser":          {with(plain, "Origin", ""), true},
		"a link from a foreign page":         {with(to("navigate", http.MethodGet), "Sec-Fetch-Site", "cross-site"), true},
		"a WebSocket of its own page":        {ws, true},
		"a WebSocket of a foreign page":      {with(ws, "Origin", "https://evil.example"), false},
		"a WebSocket of another scheme":      {with(ws, "Origin", "http://photos.example.org"), false},
		"a WebSocket without Origin":         {with(ws, "Origin", ""), false},
		"a WebSocket with two":               {twoOrigins, false},
		"a WebSocket in another letter case": {with(ws, "Upgrade", "WebSocket", "Origin", "https://evil.example"), false},
		"a WebSocket among protocols":        {with(ws, "Upgrade", "h2c, websocket", "Origin", "https://evil.example"), false},
	} {
		basic := caller("token")
		basic.Credential = access.Credential{Text: "x", Authorization: true, Basic: true, Username: "paul"}
		for who, by := range map[string]access.Caller{"a session": caller("member"), "Basic": basic} {
			if d := decide(c.r, photos, by); (d.Action == access.Pass) != c.want || !c.want && d.Reason != access.ForeignPage {
				t.Errorf("%s, %s: %+v", what, who, d)
			}
		}
		if d := decide(c.r, photos, caller("token")); d.Action != access.Pass { // no browser sends it by itself
			t.Errorf("%s, a token in its header: %+v", what, d)
		}
	}
}

func TestDecide_ASecondFactorIsAskedForOnDemand(t *testing.T) {
	app := photos
	app.SecondFactor = true
	by := caller("member")
	if d := decide(to("navigate", http.MethodGet), app, by); d.Action != access.StepUp || d.Status != http.StatusSeeOther {
		t.Errorf("a navigation: %+v", d)
	}
	for _, r := range []access.Request{to("fetch", http.MethodGet), to("navigate", http.MethodPost), to("WebSocket", http.MethodGet)} {
		if d := decide(r, app, by); d.Status != http.StatusForbidden || d.Reason != access.SecondFactorNeeded {
			t.Errorf("%+v: %+v", r, d)
		}
	}
	by.SecondFactor = true
	if d := decide(to("navigate", http.MethodGet), app, by); d.Action != access.Pass {
		t.Errorf("with one: %+v", d)
	}
	if d := decide(device(http.MethodGet), app, caller("token")); d.Action != access.Pass {
		t.Errorf("a token: %+v", d)
	}
	app.Rule = application.Admin
	if d := decide(to("navigate", http.MethodGet), app, by); d.Reason != access.AppDenied {
		t.Errorf("a second factor and no right: %+v", d)
	}
}

func TestDecide_ATokenThatDoesNotHoldIsNeverRedirected(t *testing.T) {
	closed, other := photos, photos
	closed.Tokens = false
	other.Slug = "other"
	wrongName := caller("token")
	wrongName.Credential = access.Credential{Text: "x", Authorization: true, Basic: true, Username: "anna"}
	for what, c := range map[string]struct {
		app application.Application
		by  access.Caller
	}{
		"wrong":                             {photos, access.Caller{Kind: access.WithWrongToken}},
		"for an application without tokens": {closed, caller("token")},
		"of another application":            {other, caller("token")},
		"with another user's name":          {photos, wrongName},
	} {
		for _, r := range []access.Request{to("navigate", http.MethodGet), to("fetch", http.MethodPost), device(http.MethodGet)} {
			if d := decide(r, c.app, c.by); d.Status != http.StatusUnauthorized || d.Action != access.Refuse || d.Reason != access.AppTokenInvalid || len(d.Challenges) == 0 || d.Challenges[0] != "Bearer" || d.Consumed {
				t.Errorf("%s: %+v", what, d)
			}
		}
	}
}

func TestDecide_AReadOnlyTokenReads(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT", "SEARCH"} {
		if d := decide(device(method), photos, caller("read-only")); d.Action != access.Pass {
			t.Errorf("%s: %+v", method, d)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "MKCOL", "MKCALENDAR", "MOVE", "COPY", "LOCK", "PROPPATCH", "get", "TRACE", "CONNECT", "X"} {
		if d := decide(device(method), photos, caller("read-only")); d.Status != http.StatusForbidden || d.Reason != access.ReadOnly {
			t.Errorf("%s: %+v", method, d)
		}
	}
}

func TestDecide_BasicIsAskedForOutsideBrowsers(t *testing.T) {
	closed := photos
	closed.Tokens = false
	cookie := device(http.MethodGet)
	cookie.HasCookie = true
	for what, c := range map[string]struct {
		r    access.Request
		app  application.Application
		want bool
	}{
		"a device":                             {device("PROPFIND"), photos, true},
		"a device of no type":                  {device(http.MethodGet, "Accept", ""), photos, true},
		"an application that accepts no token": {device("PROPFIND"), closed, false},
		"a browser":                            {to("fetch", http.MethodGet), photos, false},
		"a browser on plain http":              {device(http.MethodPost, "Accept", "text/html"), photos, false},
		"a client with our cookie":             {cookie, photos, false},
	} {
		for _, by := range []access.Caller{{}, {Kind: access.WithWrongToken}} {
			d := decide(c.r, c.app, by)
			if got := slices.Contains(d.Challenges, `Basic realm="photos", charset="UTF-8"`); got != c.want || d.Status != http.StatusUnauthorized {
				t.Errorf("%s: %+v", what, d)
			}
		}
	}
}

func TestAppToken_IsFoundWhereItIsPresented(t *testing.T) {
	text := token.New()
	basic := func(credentials string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
	}
	const own = "Authorization"
	for what, c := range map[string]struct {
		header http.Header
		want   access.Credential
		found  bool
	}{
		"none":                       {http.Header{}, access.Credential{}, false},
		"in its header":              {http.Header{access.TokenHeader: {text}}, access.Credential{Text: text}, true},
		"wrong, in its header":       {http.Header{access.TokenHeader: {"x"}}, access.Credential{Text: "x"}, true},
		"empty, in its header":       {http.Header{access.TokenHeader: {""}}, access.Credential{}, true},
		"twice in its header":        {http.Header{access.TokenHeader: {text, text}}, access.Credential{}, true},
		"Bearer":                     {http.Header{own: {"Bearer " + text}}, access.Credential{Text: text, Authorization: true}, true},
		"bearer":                     {http.Header{own: {"bearer  " + text}}, access.Credential{Text: text, Authorization: true}, true},
		"Bearer of wrong form":       {http.Header{own: {"Bearer pft_x"}}, access.Credential{Text: "pft_x", Authorization: true}, true},
		"Basic":                      {http.Header{own: {basic("paul:" + text)}}, access.Credential{Text: text, Authorization: true, Basic: true, Username: "paul"}, true},
		"Basic without a user":       {http.Header{own: {basic(":" + text)}}, access.Credential{Authorization: true, Basic: true}, true},
		"Basic with a token as user": {http.Header{own: {basic(text + ":x")}}, access.Credential{}, false},
		"the application's Bearer":   {http.Header{own: {"Bearer eyJhbGciOi"}}, access.Credential{}, false},
		"the application's Basic":    {http.Header{own: {basic("paul:secret")}}, access.Credential{}, false},
		"the application's Digest":   {http.Header{own: {`Digest username="pft_x"`}}, access.Credential{}, false},
		"Basic that is no base64":    {http.Header{own: {"Basic pft_" + text}}, access.Credential{}, false},
		"in its header beside the application's own":  {http.Header{access.TokenHeader: {text}, own: {basic("paul:secret")}}, access.Credential{Text: text}, true},
		"in its header and in Authorization":          {http.Header{access.TokenHeader: {text}, own: {"Bearer " + text}}, access.Credential{Authorization: true}, true},
		"in one of two of Authorization":              {http.Header{own: {basic("paul:secret"), "Bearer " + text}}, access.Credential{Authorization: true}, true},
		"in Proxy-Authorization, which is hop-by-hop": {http.Header{"Proxy-Authorization": {"Bearer " + text}}, access.Credential{}, false},
	} {
		if got, found := access.Presented(c.header); got != c.want || found != c.found {
			t.Errorf("%s: got %+v, %t", what, got, found)
		}
	}
}

func TestAppToken_OnlyItsAuthorizationIsConsumed(t *testing.T) {
	by := caller("token")
	if d := decide(device(http.MethodGet), photos, by); d.Consumed {
		t.Errorf("in its header: %+v", d)
	}
	by.Credential.Authorization = true
	if d := decide(device(http.MethodGet), photos, by); d.Action != access.Pass || !d.Consumed {
		t.Errorf("in Authorization: %+v", d)
	}
	if d := decide(device(http.MethodGet), photos, caller("member")); d.Consumed {
		t.Errorf("a session: %+v", d)
	}
}

func TestIdentity_IsWholeAndASCII(t *testing.T) {
	by := caller("group")
	by.DisplayName, by.Groups = "Änne 100%\r\nX: y", []string{"cooks", "kids"}
	want := http.Header{
		"X-Auth-User-Id": {"3"}, "X-Auth-Username": {"paul"}, "X-Auth-Role": {"member"}, "X-Auth-Name": {"%C3%84nne 100%25%0D%0AX: y"}, "X-Auth-Groups": {"member,cooks,kids"},
	}
	if diff := cmp.Diff(want, access.Identity(by)); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	for name, values := range access.Identity(caller("admin")) {
		if len(values) != 1 || values[0] == "" {
			t.Errorf("%s is %q", name, values)
		}
	}
}
