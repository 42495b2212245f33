package session

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gorilla/securecookie"
	"github.com/gorilla/sessions"
)

// A host of the same domain can set cookies of the session's name too, which the
// browser may send first.
const (
	maxCookies = 32 // read of a request
	maxLoads   = 3  // of those with our signature, loaded until one is live
)

// cookieStore is a sessions.Store: gorilla keeps one session per request, so that
// guard and handler share one load; securecookie signs. It overrides gorilla's
// defaults: SameSite, a lifetime of a month, and storing with every Save.
type cookieStore struct {
	store   Store
	codecs  []securecookie.Codec
	options sessions.Options
	now     func() time.Time
}

// The values of a gorilla session.
type valueKey int

const (
	sessionValue valueKey = iota // Session
	tokenValue                   // token
)

// newCodecs returns the codec that signs and, with a previous secret, one that only
// verifies. Their age check is off: it would refuse the cookie of a session that the
// store keeps alive, and it cannot use our clock.
func newCodecs(secret, previous string) []securecookie.Codec {
	codec := func(key string) securecookie.Codec {
		return securecookie.New([]byte(key), nil).MaxAge(0).SetSerializer(securecookie.NopEncoder{})
	}
	if previous == "" {
		return []securecookie.Codec{codec(secret)}
	}
	return []securecookie.Codec{codec(secret), codec(previous)}
}

// Get implements sessions.Store.
func (c *cookieStore) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(c, name)
}

// New implements sessions.Store. It loads and renews the session of the request's
// first cookie that has a live one, and otherwise returns an empty session: an
// unsigned cookie or an ended session is not an error.
func (c *cookieStore) New(r *http.Request, name string) (*sessions.Session, error) {
	gs := sessions.NewSession(c, name)
	options := c.options
	gs.Options, gs.IsNew = &options, true
	for _, t := range c.read(r, name) {
		s, err := c.store.Load(r.Context(), t.ref(), renewal(r.Context()))
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return gs, fmt.Errorf("load session: %w", err)
		}
		gs.IsNew = false
		gs.Values[sessionValue], gs.Values[tokenValue] = s, t
		break
	}
	return gs, nil
}

// read returns the tokens of the session cookies with our signature, in the order of
// the request, each session once.
func (c *cookieStore) read(r *http.Request, name string) []token {
	var tokens []token
	cookies := r.CookiesNamed(name)
	for _, cookie := range cookies[:min(len(cookies), maxCookies)] {
		t, ok := c.verify(name, cookie.Value)
		if !ok || slices.ContainsFunc(tokens, func(other token) bool { return other.id == t.id && other.userID == t.userID }) {
			continue
		}
		if tokens = append(tokens, t); len(tokens) == maxLoads {
			break
		}
	}
	return tokens
}

// verify returns the token of a cookie signed with one of our secrets.
func (c *cookieStore) verify(name, cookie string) (token, bool) {
	for _, codec := range c.codecs {
		var value []byte
		if err := codec.Decode(name, cookie, &value); err != nil {
			continue
		}
		t, err := parseToken(string(value))
		return t, err == nil
	}
	return token{}, false
}

// Save implements sessions.Store: it signs the session cookie and sets it again. It
// neither stores nor ends the session; account does.
func (c *cookieStore) Save(_ *http.Request, w http.ResponseWriter, gs *sessions.Session) error {
	t, ok := gs.Values[tokenValue].(token)
	if !ok {
		return nil // an anonymous request gets no cookie
	}
	t.signedAt = c.now()
	cookie, err := c.codecs[0].Encode(gs.Name(), []byte(t.String()))
	if err != nil {
		return fmt.Errorf("sign session cookie: %w", err)
	}
	gs.Values[tokenValue] = t
	http.SetCookie(w, c.cookie(gs.Name(), cookie, gs.Options))
	return nil
}

// cookie returns gorilla's cookie with the expiry by our clock.
func (c *cookieStore) cookie(name, value string, options *sessions.Options) *http.Cookie {
	cookie := sessions.NewCookie(name, value, options) //nolint:gosec // the attributes are in the options
	cookie.Expires = c.now().Add(time.Duration(options.MaxAge) * time.Second)
	return cookie
}
