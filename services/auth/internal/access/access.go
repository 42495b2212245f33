package access

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/application"
)

// Request is a request as the proxy forwarded it.
type Request struct {
	Method string // X-Forwarded-Method
	URI    string // X-Forwarded-Uri: path and query
	Scheme string // X-Forwarded-Proto
	Host   string // X-Forwarded-Host
	// Header has the client's own headers.
	Header http.Header
	// HasCookie reports, where app tokens are accepted, that the client sent a cookie of ours, valid or not.
	HasCookie bool
}

// Portal is where users log in.
type Portal struct {
	// Origin is that of PUBLIC_URL; empty: it is unset, and nobody is handed over to a host of an application.
	Origin string
}

// Kind is the kind of credential that a request has.
type Kind int

// The kinds.
const (
	Anonymous Kind = iota
	WithSession
	WithToken      // an app token that is valid
	WithWrongToken // an app token that is not
)

// Caller is the user that a request's credential belongs to, as stored now. Of Anonymous and WithWrongToken only Kind
// is set.
type Caller struct {
	Kind        Kind
	UserID      int64
	Username    string
	DisplayName string
	Role        string
	Groups      []string // slugs, sorted
	// SecondFactor reports that the session was proved by more than a password.
	SecondFactor bool
	// Credential, Applications and ReadOnly are set for the kind WithToken.
	Credential   Credential
	Applications []string // slugs
	ReadOnly     bool
}

// Action is what the guard does. Where auth has no pages, and at a later check of a request that passed, it refuses
// instead of a page or a redirect.
type Action string

// The actions.
const (
	Pass     Action = "pass"
	Refuse   Action = "refuse"   // with Status and Reason, as JSON
	Page     Action = "page"     // as Refuse, but a page for a person
	Login    Action = "login"    // 303 to the portal's login, on the same host
	HandOver Action = "handover" // 303 to the portal on another host
	StepUp   Action = "stepup"   // 303 to where a second factor is proved, or a page for users without one
)

// Reason is why a request does not pass; of a refusal it is the member reason of the answer.
type Reason string

// The reasons.
const (
	Forwarded          Reason = "forwarded" // the proxy did not say what is asked
	UnknownApp         Reason = "unknown_app"
	NotLoggedIn        Reason = "not_logged_in"
	AppTokenInvalid    Reason = "app_token_invalid" //nolint:gosec // a reason
	AppDenied          Reason = "app_denied"
	SecondFactorNeeded Reason = "second_factor_needed"
	ReadOnly           Reason = "read_only"
	ForeignPage        Reason = "foreign_page"
	// CookiesBlocked and HandOverFailed are why a hand-over failed; Decide returns neither.
	CookiesBlocked Reason = "cookies_blocked"
	HandOverFailed Reason = "handover_failed"
)

// Decision is what the guard does with a request.
type Decision struct {
	Action Action
	Status int    // HTTP status of the answer that Action names
	Reason Reason // empty for Pass
	// Challenges are the values of WWW-Authenticate.
	Challenges []string
	// Consumed reports that Authorization was ours, and that the proxy removes it.
	Consumed bool
}

// Decide decides about a request to an application; known reports whether the proxy named
// one that exists. It checks the credential before the rule: who is not logged in does not
// learn whether they may use the application.
func Decide(r Request, app application.Application, known bool, portal Portal, by Caller) Decision {
	if d, decided := Misdirected(r, app, known, portal); decided {
		return d
	}
	switch by.Kind {
	case WithWrongToken:
		return invalidToken(r, app)
	case WithToken:
		return decideToken(r, app, by)
	case WithSession:
		return decideSession(r, app, by)
	default:
		return decideAnonymous(r, app, portal)
	}
}

// Misdirected decides about a request that is refused for everyone, and reports whether it is
// one. Callers ask it before they look up a credential, so that such a request costs little.
func Misdirected(r Request, app application.Application, known bool, portal Portal) (Decision, bool) {
	switch {
	case r.Method == "" || r.Host == "" || !strings.HasPrefix(r.URI, "/"):
		return refuse(http.StatusBadRequest, Forwarded), true
	case !known || !isAt(r, app, portal):
		return forPerson(r, http.StatusForbidden, UnknownApp), true
	}
	return Decision{}, false
}

// AtPortal reports whether a request to an application is on the portal's host, whose
// cookie is that of the session itself.
func AtPortal(r Request, app application.Application, portal Portal) bool {
	return !app.HasHost() || application.IsAt(portal.Origin, r.Host)
}

// isAt reports whether the request's host is the application's, by equality. An
// application with a path is on the portal's host; while that is unset, on any.
func isAt(r Request, app application.Application, portal Portal) bool {
	origin := app.URL
	if !app.HasHost() {
		origin = portal.Origin
	}
	if origin == "" {
		_, ok := application.Host(r.Scheme, r.Host)
		return ok
	}
	return application.IsAt(origin, r.Host)
}

func decideAnonymous(r Request, app application.Application, portal Portal) Decision {
	switch {
	case isNavigation(r) && !app.HasHost():
		return Decision{Action: Login, Status: http.StatusSeeOther, Reason: NotLoggedIn}
	case isNavigation(r) && portal.Origin != "":
		return Decision{Action: HandOver, Status: http.StatusSeeOther, Reason: NotLoggedIn}
	}
	d := refuse(http.StatusUnauthorized, NotLoggedIn)
	if !app.HasHost() || portal.Origin != "" {
		d = forPerson(r, http.StatusUnauthorized, NotLoggedIn) // no redirect, which would lose a form without a word
	}
	d.Challenges = basicChallenge(r, app)
	return d
}

func decideSession(r Request, app application.Application, by Caller) Decision {
	switch {
	case !app.Permits(by.Role, by.Groups):
		return forPerson(r, http.StatusForbidden, AppDenied)
	case app.SecondFactor && !by.SecondFactor && isNavigation(r):
		return Decision{Action: StepUp, Status: http.StatusSeeOther, Reason: SecondFactorNeeded}
	case app.SecondFactor && !by.SecondFactor:
		return forPerson(r, http.StatusForbidden, SecondFactorNeeded)
	case !fromOwnPage(r):
		return forPerson(r, http.StatusForbidden, ForeignPage)
	}
	return pass(false)
}

// decideToken decides about a request with a valid app token. It asks for no second factor: an admin has decided that
// the application accepts tokens, and users have to prove who they are to create one.
func decideToken(r Request, app application.Application, by Caller) Decision {
	switch {
	case !app.Tokens || !slices.Contains(by.Applications, app.Slug) ||
		by.Credential.Basic && by.Credential.Username != by.Username:
		return invalidToken(r, app)
	case !app.Permits(by.Role, by.Groups):
		return refuse(http.StatusForbidden, AppDenied)
	case by.ReadOnly && (!onlyReads(r.Method) || IsWebSocket(r.Header)):
		return refuse(http.StatusForbidden, ReadOnly)
	case by.Credential.Basic && !fromOwnPage(r):
		return refuse(http.StatusForbidden, ForeignPage)
	}
	return pass(by.Credential.Authorization)
}

func pass(consumed bool) Decision {
	return Decision{Action: Pass, Status: http.StatusOK, Consumed: consumed}
}

func refuse(status int, reason Reason) Decision {
	return Decision{Action: Refuse, Status: status, Reason: reason}
}

// forPerson refuses, with a page where a person sees the answer.
func forPerson(r Request, status int, reason Reason) Decision {
	d := refuse(status, reason)
	if isNavigation(r) || sendsForm(r) {
		d.Action = Page
	}
	return d
}

// invalidToken returns the decision about an app token that does not count for this
// application. It is never a redirect, which a device would follow.
func invalidToken(r Request, app application.Application) Decision {
	d := refuse(http.StatusUnauthorized, AppTokenInvalid)
	d.Challenges = append([]string{"Bearer"}, basicChallenge(r, app)...)
	return d
}

// basicChallenge returns the challenge of Basic authentication where tokens are accepted, as
// DAV clients send no credentials until asked; nil for browsers, which would show a dialogue.
func basicChallenge(r Request, app application.Application) []string {
	h := r.Header
	if !app.Tokens || hasFetchMetadata(h) || r.HasCookie || accepts(h, "text/html") {
		return nil
	}
	return []string{`Basic realm="` + app.Slug + `", charset="UTF-8"`}
}

func hasFetchMetadata(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}

func accepts(h http.Header, media string) bool {
	return slices.ContainsFunc(h.Values("Accept"), func(v string) bool {
		return strings.Contains(strings.ToLower(v), media)
	})
}

// isNavigation reports whether a person opens a page: only then is a redirect of use.
// fetch() must see a 401, because a redirect to another origin fails in it without a word.
func isNavigation(r Request) bool {
	return reads(r.Method) && isShown(r.Header)
}

// sendsForm reports whether a person sends a form, and reads the answer. Without Sec-Fetch-* it may be a program that
// also takes HTML; in the Accept of browsers HTML comes first.
func sendsForm(r Request) bool {
	return r.Method == http.MethodPost && isShown(r.Header) &&
		(hasFetchMetadata(r.Header) || strings.HasPrefix(strings.ToLower(r.Header.Get("Accept")), "text/html"))
}

func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// isShown reports whether a browser seems to show a person the answer to a request with these headers. Without
// Sec-Fetch-*, which browsers rarely send over plain http, Accept decides.
func isShown(h http.Header) bool {
	if IsWebSocket(h) {
		return false
	}
	if hasFetchMetadata(h) {
		// A service worker that passes a navigation on has "empty"; a script cannot ask for the mode.
		dest := One(h, "Sec-Fetch-Dest")
		return One(h, "Sec-Fetch-Mode") == "navigate" && (dest == "document" || dest == "empty")
	}
	return accepts(h, "text/html") && len(h.Values("X-Requested-With")) == 0
}

// PageOf returns the path and query of the page that a person opens, or of the page with the form that they send: the
// Referer, or "" where that is not of the same origin. It is as the client sent it.
func PageOf(r Request) string {
	if reads(r.Method) {
		return r.URI
	}
	from, err := url.Parse(One(r.Header, "Referer"))
	if err != nil || from.User != nil || !isOrigin(from.Scheme+"://"+from.Host, r) {
		return ""
	}
	return from.RequestURI()
}

// IsWebSocket reports whether a request with these headers may open a WebSocket. Upgrade ends
// at each hop (RFC 9110, section 7.6.1), and nginx and Traefik do not hand it to a forward
// auth; the two headers that every handshake has (RFC 6455, section 4.1) they do.
func IsWebSocket(h http.Header) bool {
	return len(h.Values("Sec-WebSocket-Version")) > 0 || len(h.Values("Sec-WebSocket-Key")) > 0 ||
		slices.ContainsFunc(h.Values("Upgrade"), func(v string) bool {
			return strings.Contains(strings.ToLower(v), "websocket")
		})
}

// One returns the value of a header that occurs once, else "".
func One(h http.Header, name string) string {
	if values := h.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// onlyReads reports whether a method is one to read with: those that RFC 9110, 4918, 3253 and 5323 call safe, but for
// TRACE.
func onlyReads(method string) bool {
	return slices.Contains([]string{
		http.MethodGet, http.MethodHead, http.MethodOptions, "PROPFIND", "REPORT", "SEARCH",
	}, method)
}

// fromOwnPage reports whether the request comes from no page or one of the same origin, or may
// come from anywhere because it changes nothing. Browsers tell by Sec-Fetch-Site and else by
// Origin; a request with neither is no browser's (as net/http.CrossOriginProtection). A
// WebSocket opens with a GET and may be opened by any page, but needs the Origin that browsers
// send with it (RFC 6455, section 10.2).
func fromOwnPage(r Request) bool {
	sites, origins := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
	if IsWebSocket(r.Header) {
		return len(origins) == 1 && isOrigin(origins[0], r)
	}
	if reads(r.Method) || r.Method == http.MethodOptions {
		return true
	}
	switch {
	case len(sites) > 1 || len(origins) > 1:
		return false
	case len(sites) == 1:
		return sites[0] == "same-origin" || sites[0] == "none"
	case len(origins) == 1:
		return isOrigin(origins[0], r)
	}
	return true
}

// isOrigin reports whether an origin is the request's, in scheme, host and port.
func isOrigin(origin string, r Request) bool {
	scheme, host, found := strings.Cut(strings.ToLower(origin), "://")
	page, ok := application.Host(scheme, host)
	target, known := application.Host(scheme, r.Host)
	return found && ok && known && page == target && scheme == strings.ToLower(r.Scheme)
}

// Identity returns the headers that name the user to an application. They are always the same ones, so that none of the
// client's is left. What is not printable ASCII is percent-encoded, and so is the percent sign.
func Identity(by Caller) http.Header {
	h := http.Header{}
	h.Set("X-Auth-User-Id", strconv.FormatInt(by.UserID, 10))
	h.Set("X-Auth-Username", encoded(by.Username))
	h.Set("X-Auth-Role", encoded(by.Role))
	h.Set("X-Auth-Name", encoded(by.DisplayName))
	h.Set("X-Auth-Groups", strings.Join(append([]string{by.Role}, by.Groups...), ","))
	return h
}

func encoded(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c < 0x20 || c > 0x7e || c == '%' {
			_, _ = fmt.Fprintf(&b, "%%%02X", c)
		} else {
			_ = b.WriteByte(c)
		}
	}
	return b.String()
}
