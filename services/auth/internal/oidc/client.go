package oidc

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// Limits of a client.
const (
	MaxAddresses     = 10  // of each kind
	MaxAddressLength = 512 // bytes
	MaxSecrets       = 2
)

// Alg is the algorithm that signs a client's ID tokens and logout tokens.
type Alg string

// The algorithms.
const (
	RS256 Alg = "RS256" // the one that every client knows
	ES256 Alg = "ES256"
)

// PKCE is whether a confidential client has to send a code challenge. A public one always has to.
type PKCE string

// The values of PKCE.
const (
	Auto     PKCE = "auto" // the first exchange with PKCE makes it a duty
	Required PKCE = "required"
)

// GroupClaim is when a client learns role and groups.
type GroupClaim string

// The values of GroupClaim.
const (
	GroupsAsked  GroupClaim = "asked" // with the scope groups
	GroupsAlways GroupClaim = "always"
	GroupsNever  GroupClaim = "never"
)

// Client is an application that has users log in here.
type Client struct {
	ApplicationID int64
	Slug, Name    string // of the application

	ID     string // client_id
	Public bool   // it has no secret
	Alg    Alg
	PKCE   PKCE
	Groups GroupClaim
	// Email reports that of a user without an e-mail address the application learns a placeholder, which no mailbox
	// has.
	Email bool
	// Offline gives the client refresh tokens that outlive the login also without the scope offline_access.
	Offline bool
	// Ask has the user asked at each login.
	Ask bool
	// Device lets devices without a browser log users in by a code (RFC 8628). Redirects may then be empty.
	Device bool
	// LogoutURI is where back-channel logouts are sent; empty: nowhere.
	LogoutURI string
	// Redirects are the addresses that logins may lead back to, AfterLogout those of logouts; both sorted.
	Redirects, AfterLogout []string
	Secrets                []Secret // sorted by ID
	CreatedAt              time.Time
}

// Secret describes a secret of a client. The secret itself is not stored.
type Secret struct {
	ID         int64
	Hash       string // SHA-256, hexadecimal
	Hint       string // its last four characters
	CreatedAt  time.Time
	LastUsedAt time.Time // exact to an hour; zero: never
}

// Errors of clients and their fields.
var (
	ErrNoClient   = errors.New("application does not have users log in by OpenID Connect")
	ErrIsClient   = errors.New("application has users log in by OpenID Connect already")
	ErrClientID   = errors.New("client id is not 1 to 64 letters, digits, dots, hyphens and underscores")
	ErrIDTaken    = errors.New("client id is another application's")
	ErrAddress    = errors.New("address cannot be led back to")
	ErrAddresses  = errors.New("there is no address to lead back to, or more than 10 of a kind")
	ErrLogoutURI  = errors.New("address for logouts is neither https nor http, or has a fragment or a user")
	ErrField      = errors.New("alg, pkce or groups is none of the known values")
	ErrManySecret = errors.New("client has two secrets already")
	ErrNoSecret   = errors.New("no such secret of the client")
	// ErrPublic: the client is public, and has no secrets.
	ErrPublic = errors.New("public client has no secrets")
)

var clientIDPattern = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,64}\z`)

// Check returns the error of the first field that is wrong.
func (c Client) Check() error {
	switch {
	case !clientIDPattern.MatchString(c.ID):
		return ErrClientID
	case c.Alg != RS256 && c.Alg != ES256, c.PKCE != Auto && c.PKCE != Required,
		!slices.Contains([]GroupClaim{GroupsAsked, GroupsAlways, GroupsNever}, c.Groups):
		return ErrField
	case len(c.Redirects) == 0 && !c.Device, len(c.Redirects) > MaxAddresses, len(c.AfterLogout) > MaxAddresses:
		return ErrAddresses
	case c.LogoutURI != "" && !isWebAddress(c.LogoutURI):
		return ErrLogoutURI
	}
	for _, address := range slices.Concat(c.Redirects, c.AfterLogout) {
		if err := CheckAddress(address, c.Public); err != nil {
			return err
		}
	}
	return nil
}

// refusedSchemes are schemes that CheckAddress refuses: they run code, or are not a program's own.
var refusedSchemes = []string{
	"about", "blob", "chrome", "data", "file", "filesystem", "ftp", "intent", "javascript", "jar", "mailto", "resource",
	"sms", "tel", "vbscript", "view-source", "ws", "wss",
}

var schemePattern = regexp.MustCompile(`\A[a-z][a-z0-9+.-]{0,63}\z`)

// CheckAddress returns ErrAddress unless users may be led back to an address of a client: one for which isWebAddress
// holds, which with http is on the user's own machine if the client is public; or a plain one whose scheme is
// another, and none of refusedSchemes.
func CheckAddress(s string, public bool) error {
	scheme, _, found := strings.Cut(s, ":")
	if !found || !isPlain(s) || !schemePattern.MatchString(scheme) || slices.Contains(refusedSchemes, scheme) {
		return ErrAddress
	}
	if IsOwnScheme(s) {
		return nil
	}
	if !isWebAddress(s) || scheme == "http" && public && !IsLoopback(s) {
		return ErrAddress
	}
	return nil
}

// isPlain reports whether an address is one that all programs read alike: of at most MaxAddressLength characters of
// ASCII, without white space, a fragment, * and characters that a URL may not have.
func isPlain(s string) bool {
	return len(s) <= MaxAddressLength && !strings.ContainsAny(s, "#*\\\"<>^`{|}") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// isWebAddress reports whether an address is plain, of http or https, with a host and without a user.
func isWebAddress(s string) bool {
	u, err := url.Parse(s)
	return isPlain(s) && err == nil && u.Host != "" && u.User == nil && !strings.Contains(u.Host, "@") &&
		(strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://"))
}

// IsOwnScheme reports whether an address has a scheme other than http and https, a program's own. Several programs
// may claim one.
func IsOwnScheme(s string) bool {
	scheme, _, _ := strings.Cut(s, ":")
	return scheme != "http" && scheme != "https"
}

// IsLoopback reports whether an address is one of http or https on the user's own machine, by localhost, a name below
// that or a loopback address.
func IsLoopback(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.IsLoopback()
}

// Origin returns what permits an address in the directive form-action: its origin or, if IsOwnScheme, its scheme. It is
// the scheme for an address of IPv6, too: the directive has none of these.
func Origin(s string) string {
	scheme, rest, _ := strings.Cut(s, ":")
	if IsOwnScheme(s) || strings.HasPrefix(rest, "//[") {
		return scheme + ":"
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	host, _, _ = strings.Cut(host, "?")
	return scheme + "://" + host
}

// HasRedirect reports whether an address equals one of the client's. Of a public client, an http address on the
// user's machine may also have a port that the entered one has not: the program takes the port that it gets (RFC
// 8252, section 7.3).
func (c Client) HasRedirect(address string) bool {
	if slices.Contains(c.Redirects, address) {
		return true
	}
	without, ok := withoutPort(address)
	return ok && c.Public && slices.Contains(c.Redirects, without)
}

var loopbackPort = regexp.MustCompile(`\A(http://(?:127\.0\.0\.1|\[::1\]|localhost)):[1-9][0-9]{0,4}((?:/[^#]*)?)\z`)

// withoutPort returns an http address on the user's machine without its port, and whether s is such an address with
// one.
func withoutPort(s string) (string, bool) {
	m := loopbackPort.FindStringSubmatch(s)
	if m == nil || !isPlain(s) {
		return "", false
	}
	return m[1] + m[2], true
}

// secretPrefix is how every secret begins, so that it is told from other credentials.
const secretPrefix = "pfc_"

// NewSecret returns a random secret, and what a store holds of it.
func NewSecret() (text string, s Secret) {
	text = secretPrefix + secrets.New()
	return text, Secret{Hash: secrets.Hash(text), Hint: text[len(text)-4:]}
}
