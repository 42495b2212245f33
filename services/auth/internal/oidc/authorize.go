package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Limits of an authorization request: in bytes, and of max_age in seconds. requestURN begins a
// request_uri.
const (
	MaxRequest = 8 << 10
	maxState   = 4 << 10
	maxNonce   = 1 << 10
	challenge  = 43 // characters, of S256
	maxMaxAge  = 10 * 365 * 24 * 60 * 60
	requestURN = "urn:ietf:params:oauth:request_uri:"
)

// Attempt is a browser's request for a login at an application.
type Attempt struct {
	// Values are the request's parameters. Handle, unless it is empty, is that of a kept request, which counts
	// instead.
	Values url.Values
	Handle string
	// Session and User are who is logged in; no one if Session is nil.
	Session *session.Session
	User    user.User
	// Confirmed and Denied are what the user answered when they were asked.
	Confirmed, Denied bool
	IP                string
	// Spend counts a request that is to be kept, and returns an error where there were too many. It is called
	// several times for a long one.
	Spend func(context.Context) error
}

// StepKind is what is to be done next.
type StepKind int

// The steps.
const (
	Back     StepKind = iota // lead back with Answer
	ToLogin                  // have the user log in, then call Authorize with Handle
	ToReauth                 // have the user prove anew who they are, then call Authorize with Handle
	ToAsk                    // ask whether they want this, then call Authorize with Handle, and Confirmed or Denied
	ToChoose                 // ask whether to go on as this user; then as ToAsk
	NoAccess                 // show that the rule does not admit the user; Answer, if set, leads back
	NoFactor                 // show that the user has to set up a second factor; Answer, if set, leads back
)

// Step is what to do with a request for a login.
type Step struct {
	Kind   StepKind
	Handle string // of the kept request
	Answer Answer
	// Slug and Name are of the application.
	Slug, Name string
	// LoginHint is the username that the application proposes; empty: none.
	LoginHint string
	// Err is the error that the application is to be told with Answer, whose Values do not name it; nil: Answer has a
	// code, or is not set.
	Err error
}

// Answer leads a browser back to an application.
type Answer struct {
	To     string // the redirect_uri of the request
	Values url.Values
	// Form has Values sent by a form (response_mode form_post), instead of in the address.
	Form bool
}

// URL returns the address with the values in its query, for an answer without Form.
func (a Answer) URL() string {
	separator := "?"
	if strings.Contains(a.To, "?") {
		separator = "&"
	}
	return a.To + separator + a.Values.Encode()
}

// Proves reports whether the address of an answer says by itself which program gets it. One on the user's machine and
// one of a program's own scheme do not: another program may be at the port, or claim the scheme.
func (a Answer) Proves() bool { return !IsLoopback(a.To) && !IsOwnScheme(a.To) }

// authorization is a request for a login. Its method check sets prompt and maxAge.
type authorization struct {
	Attempt
	kept   Kept
	values url.Values
	client Client
	prompt []string
	maxAge time.Duration // negative: none
	now    time.Time
}

// Authorize decides what to do with a request for a login at an application. It is called again with the handle as
// often as its user had to log in, prove or answer something meanwhile.
//
// It returns ErrRequest, ErrUnknownClient, ErrUnknownAddress or ErrRequestGone where it is not known where to lead
// back to, and the errors of Off, of Spend and of stores. All else that is wrong is the Step's Err.
func (s *Service) Authorize(ctx context.Context, attempt Attempt) (Step, error) {
	st, err := s.on(ctx)
	if err != nil {
		return Step{}, err
	}
	a, err := s.request(ctx, attempt)
	if err != nil {
		return Step{}, err
	}
	// Nothing leads anywhere until the address is the client's.
	if err := s.address(ctx, st, a); err != nil {
		return Step{}, err
	}
	// From here on errors lead back.
	if err := a.check(); err != nil {
		return s.refused(ctx, a, err), nil
	}
	if a.Denied {
		return s.refused(ctx, a, ErrDenied), nil
	}
	if kind, why, err := s.missing(ctx, a); why != nil || err != nil {
		if err != nil {
			return Step{}, err
		}
		return s.interrupt(ctx, a, kind, why)
	}
	return s.admit(ctx, a)
}

// request reads the parameters of a request, or those of a kept or pushed one. ErrRequest, ErrRequestGone.
func (s *Service) request(ctx context.Context, attempt Attempt) (*authorization, error) {
	a := &authorization{Attempt: attempt, values: attempt.Values, maxAge: -1, now: s.o.Now()}
	a.kept = Kept{At: a.now.Unix(), Session: a.sessionKey()}
	var err error
	switch pushed, isPushed := strings.CutPrefix(a.values.Get("request_uri"), requestURN); {
	case a.Handle != "":
		a.kept, err = s.o.ShortLived.Kept(ctx, secrets.Hash(a.Handle))
		if err == nil && a.kept.ClientID != "" { // a pushed one, which counts once, as a request_uri
			err = ErrRequestGone
		}
	case isPushed && one(a.values, "client_id"):
		a.kept, err = s.o.ShortLived.TakeKept(ctx, secrets.Hash(pushed))
		if err == nil && a.kept.ClientID != a.values.Get("client_id") {
			err = ErrRequestGone
		}
		a.kept.At, a.kept.Session = a.now.Unix(), a.sessionKey()
	default:
		a.kept.Query = a.values.Encode()
	}
	if err != nil {
		return nil, err
	}
	if len(a.kept.Query) > MaxRequest {
		return nil, ErrRequest
	}
	if a.values, err = url.ParseQuery(a.kept.Query); err != nil {
		return nil, ErrRequest
	}
	for name := range a.values {
		if !one(a.values, name) {
			return nil, ErrRequest
		}
	}
	if len(a.values.Get("state")) > maxState || len(a.values.Get("nonce")) > maxNonce {
		return nil, ErrRequest
	}
	return a, nil
}

func one(values url.Values, name string) bool { return len(values[name]) == 1 }

// address sets the client of a request. ErrUnknownClient; ErrUnknownAddress if the request's address is not one of the
// client's.
func (s *Service) address(ctx context.Context, st *state, a *authorization) error {
	var known bool
	if a.client, known = st.clients[a.values.Get("client_id")]; !known {
		return ErrUnknownClient
	}
	if !a.client.HasRedirect(a.values.Get("redirect_uri")) {
		s.note(ctx, a.client, Refusal{Reason: "redirect_uri", Address: a.values.Get("redirect_uri"), IP: a.IP})
		return ErrUnknownAddress
	}
	return nil
}

// check reads prompt and max_age, and returns the error of the first parameter that is wrong.
func (a *authorization) check() error {
	v := a.values
	a.prompt = strings.Fields(v.Get("prompt"))
	challenged, method := v.Has("code_challenge"), v.Get("code_challenge_method")
	switch {
	case v.Get("response_type") != "code":
		return ErrResponseType
	case !slices.Contains([]string{"", "query", "form_post"}, v.Get("response_mode")):
		return ErrResponseMode
	case v.Get("request") != "":
		return ErrRequestObject
	case v.Get("request_uri") != "": // the method request has replaced one of ours; Push takes none
		return ErrRequestURI
	case v.Get("registration") != "":
		return ErrRegistration
	case !slices.Contains(strings.Fields(v.Get("scope")), ScopeOpenID):
		return ErrScope
	case !challenged && (a.client.Public || a.client.PKCE == Required):
		return ErrPKCERequired
	case challenged && (method != "S256" || len(v.Get("code_challenge")) != challenge),
		!challenged && v.Has("code_challenge_method"):
		return ErrPKCE
	case a.asks("none") && len(a.prompt) > 1:
		return ErrParameter
	}
	if text := v.Get("max_age"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 {
			return ErrParameter
		}
		a.maxAge = time.Duration(min(seconds, maxMaxAge)) * time.Second
	}
	return nil
}

func (a *authorization) asks(prompt string) bool { return slices.Contains(a.prompt, prompt) }

// missing returns what the user has to do first, and with it why: the error for prompt=none. why is nil if there is
// nothing.
func (s *Service) missing(ctx context.Context, a *authorization) (kind StepKind, why, err error) {
	if a.Session == nil {
		return ToLogin, ErrLoginRequired, nil
	}
	if a.outdated() {
		return ToReauth, ErrReauth, nil
	}
	question := a.client.Ask || a.asks("consent") || !(Answer{To: a.values.Get("redirect_uri")}).Proves()
	if question || a.values.Get("response_mode") == "form_post" {
		// A page of another application at our own origin can send the form of the question, and read a code that comes
		// by a page of ours. It cannot prove who the user is.
		paths, err := s.o.HasPaths(ctx)
		if err != nil {
			return Back, nil, err
		}
		if paths && !a.proved() {
			return ToReauth, ErrConsentRequired, nil
		}
		if (question || paths) && !a.Confirmed {
			return ToAsk, ErrConsentRequired, nil
		}
	}
	// A login after the request was a choice; one in the same second may have been before it.
	if a.asks("select_account") && !a.Confirmed && !a.provedSince(a.kept.At+1) {
		return ToChoose, ErrInteraction, nil
	}
	return Back, nil, nil
}

// proved reports whether the user has proved who they are since the request came. Each proof makes another session; the
// one with which the request came may have begun in the same second.
func (a *authorization) proved() bool {
	return a.sessionKey() != a.kept.Session && a.provedSince(a.kept.At)
}

func (a *authorization) sessionKey() string {
	if a.Session == nil {
		return ""
	}
	return a.Session.Key
}

// provedSince reports whether the user has proved who they are at or after an instant.
func (a *authorization) provedSince(unix int64) bool {
	return a.Session.ProvedSince(time.Unix(unix, 0), a.now)
}

// outdated reports whether the session is older than the request asks for or, if the user has a second factor,
// weaker. After a proof since the request came it is neither: a request asks for one proof only.
func (a *authorization) outdated() bool {
	if a.proved() {
		return false
	}
	if a.asks("login") || a.maxAge == 0 || a.maxAge > 0 && !a.provedSince(a.kept.At-int64(a.maxAge/time.Second)) {
		return true
	}
	return a.User.SecondFactor && a.weak()
}

// strength has the values of acr, the weakest first.
var strength = []string{"pwd", "mfa", "phr"}

// weak reports whether the session has less than the weakest known one of acr_values.
func (a *authorization) weak() bool {
	asked := -1
	for value := range strings.FieldsSeq(a.values.Get("acr_values")) {
		if i := slices.Index(strength, value); i >= 0 && (asked < 0 || i < asked) {
			asked = i
		}
	}
	return asked > slices.Index(strength, a.Session.Factor.ACR())
}

// interrupt returns the step, and keeps the request unless it is kept already. With prompt=none it leads back with
// the error.
func (s *Service) interrupt(ctx context.Context, a *authorization, kind StepKind, err error) (Step, error) {
	if a.asks("none") {
		return s.refused(ctx, a, err), nil
	}
	step := Step{Kind: kind, Handle: a.Handle, Slug: a.client.Slug, Name: a.client.Name}
	if hint := a.values.Get("login_hint"); user.CheckUsername(hint) == nil {
		step.LoginHint = hint
	}
	if step.Handle == "" {
		if step.Handle, err = s.keep(ctx, a); err != nil {
			return Step{}, err
		}
	}
	return step, nil
}

// admit leads back with a code where the rule admits the user. Otherwise it returns the step of the kind that
// admitted says or, with prompt=none, leads back with an error.
func (s *Service) admit(ctx context.Context, a *authorization) (Step, error) {
	p, kind, err := s.admitted(ctx, *a.Session, a.User, a.client)
	switch {
	case err != nil:
		return Step{}, err
	case kind == ToLogin:
		return s.interrupt(ctx, a, kind, ErrLoginRequired)
	case kind == ToReauth:
		return s.interrupt(ctx, a, kind, ErrReauth)
	case kind != Back:
		step := s.refused(ctx, a, ErrDenied)
		if !a.asks("none") { // else it leads back at once
			step.Kind = kind
		}
		return step, nil
	}
	if another, err := s.hintsAtAnother(ctx, a, p); err != nil {
		return Step{}, err
	} else if another {
		return s.refused(ctx, a, ErrLoginRequired), nil
	}
	kept := s.newCode(a.client, p, *a.Session, knownScopes(a.values.Get("scope")))
	kept.Redirect, kept.Nonce = a.values.Get("redirect_uri"), a.values.Get("nonce")
	kept.Challenge = a.values.Get("code_challenge")
	code := secrets.New()
	if err := s.o.ShortLived.PutCode(ctx, secrets.Hash(code), kept); err != nil {
		return Step{}, err
	}
	s.forPage(ctx, "note that an application was led to", func(ctx context.Context) error {
		return s.o.ShortLived.Wait(ctx, a.client.ApplicationID, s.o.Now())
	})
	return s.answerStep(a, url.Values{"code": {code}}), nil
}

// hintsAtAnother reports whether id_token_hint is an ID token of ours about another user. The application must then get
// no code (OpenID Connect Core, section 3.1.2.2).
func (s *Service) hintsAtAnother(ctx context.Context, a *authorization, p Person) (bool, error) {
	text, err := s.VerifyHint(ctx, a.values.Get("id_token_hint"))
	if errors.Is(err, ErrToken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var claims struct{ Sub string }
	err = json.Unmarshal(text, &claims)
	return err == nil && claims.Sub != p.Subject, nil
}

// newCode returns the Code of a person's login at a client.
func (s *Service) newCode(c Client, p Person, by session.Session, scopes []string) Code {
	return Code{
		ClientID: c.ID, ApplicationID: c.ApplicationID, Scopes: scopes, Grant: NewGrantID(),
		Offline: c.Offline || slices.Contains(scopes, ScopeOffline), UserID: p.User.ID, Login: by.Login,
		Stamp: p.User.SessionStamp, AuthTime: by.AuthAt.Unix(), Factor: by.Factor,
	}
}

// refused returns the step that leads back with an error, and notes the error if an admin may have to mend something.
func (s *Service) refused(ctx context.Context, a *authorization, err error) Step {
	switch {
	case errors.Is(err, ErrLoginRequired), errors.Is(err, ErrReauth), errors.Is(err, ErrConsentRequired),
		errors.Is(err, ErrInteraction), errors.Is(err, ErrDenied): // nothing to mend
	default:
		s.note(ctx, a.client, Refusal{Reason: err.Error(), IP: a.IP})
	}
	step := s.answerStep(a, url.Values{})
	step.Err = err
	return step
}

// answerStep returns the step that leads back with values, to which it adds iss (RFC 9207) and the request's state.
func (s *Service) answerStep(a *authorization, values url.Values) Step {
	values.Set("iss", s.o.Issuer)
	if a.values.Has("state") {
		values.Set("state", a.values.Get("state"))
	}
	return Step{
		Slug: a.client.Slug, Name: a.client.Name, Handle: a.Handle,
		Answer: Answer{
			To: a.values.Get("redirect_uri"), Values: values, Form: a.values.Get("response_mode") == "form_post",
		},
	}
}

// note keeps a refusal for the application's page, without making the request wait for it.
func (s *Service) note(ctx context.Context, c Client, r Refusal) {
	r.At = s.o.Now().UTC()
	if len(r.Address) > MaxAddressLength {
		r.Address = r.Address[:MaxAddressLength]
	}
	r.Address = strings.ToValidUTF8(r.Address, "")
	s.forPage(ctx, "note refusal", func(ctx context.Context) error {
		return s.o.ShortLived.Refuse(ctx, c.ApplicationID, r)
	})
}

// Waiting is a kept request, as pages show it while its user logs in, proves who they are or is asked.
type Waiting struct {
	Name   string // of the application
	To     string // the redirect_uri of the request
	Origin string // what permits To in the directive form-action
}

// Waiting returns a kept request. ErrRequest; ErrRequestGone, also where it leads to no client's address any more; the
// errors of Off.
func (s *Service) Waiting(ctx context.Context, handle string) (Waiting, error) {
	st, err := s.on(ctx)
	if err != nil {
		return Waiting{}, err
	}
	a, err := s.request(ctx, Attempt{Handle: handle})
	if err != nil {
		return Waiting{}, err
	}
	var known bool
	a.client, known = st.clients[a.values.Get("client_id")]
	to := a.values.Get("redirect_uri")
	if !known || !a.client.HasRedirect(to) {
		return Waiting{}, fmt.Errorf("%w: client or address changed", ErrRequestGone)
	}
	return Waiting{Name: a.client.Name, To: to, Origin: Origin(to)}, nil
}

// Keep keeps a request that came by POST, or the pushed one that it names, and returns its handle. The attempt has
// Values, IP and Spend. ErrRequest, ErrRequestGone, ErrUnknownClient, ErrUnknownAddress, and the errors of Off, of
// Spend and of stores.
func (s *Service) Keep(ctx context.Context, attempt Attempt) (handle string, err error) {
	st, err := s.on(ctx)
	if err != nil {
		return "", err
	}
	a, err := s.request(ctx, attempt)
	if err != nil {
		return "", err
	}
	if err := s.address(ctx, st, a); err != nil {
		return "", err
	}
	return s.keep(ctx, a)
}

// spentBytes: Spend is called once for a request that is kept, and once more for each so many bytes of it.
const spentBytes = 2 << 10

// keep counts a request by Spend, keeps it, and returns its handle. Errors are those of Spend and of the store.
func (s *Service) keep(ctx context.Context, a *authorization) (handle string, err error) {
	for range 1 + len(a.kept.Query)/spentBytes {
		if err := a.Spend(ctx); err != nil {
			return "", err
		}
	}
	handle = secrets.New()
	kept := Kept{Query: a.kept.Query, At: a.kept.At, Session: a.kept.Session}
	return handle, s.o.ShortLived.Keep(ctx, secrets.Hash(handle), kept, RequestLifetime, a.Session == nil)
}

// Push keeps a request that a client sends itself, before a browser does (RFC 9126), and returns the request_uri that
// stands for it once. ErrRequest, ErrUnknownAddress, ErrClient for another client's request, and the errors of wrong
// parameters with which Authorize leads back.
func (s *Service) Push(ctx context.Context, c Client, values url.Values, ip string) (uri string, err error) {
	values = maps.Clone(values)
	values.Del("client_secret")
	if id := values.Get("client_id"); id != "" && id != c.ID {
		return "", ErrClient
	}
	values.Set("client_id", c.ID)
	query := values.Encode()
	if len(query) > MaxRequest || len(values.Get("state")) > maxState || len(values.Get("nonce")) > maxNonce {
		return "", ErrRequest
	}
	if !c.HasRedirect(values.Get("redirect_uri")) {
		s.note(ctx, c, Refusal{Reason: "redirect_uri", Address: values.Get("redirect_uri"), IP: ip})
		return "", ErrUnknownAddress
	}
	if err := (&authorization{values: values, client: c}).check(); err != nil {
		return "", err
	}
	handle := secrets.New()
	kept := Kept{Query: query, At: s.o.Now().Unix(), ClientID: c.ID}
	err = s.o.ShortLived.Keep(ctx, secrets.Hash(handle), kept, PushedLifetime, c.Public)
	return requestURN + handle, err
}
