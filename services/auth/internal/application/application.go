package application

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rule is who may use an application.
type Rule string

// The rules.
const (
	Login Rule = "login" // every user
	Admin Rule = "admin" // admins
	Group Rule = "group" // members of the application's group; admins only as members of it
)

// Limits: how many a household may have, the code points of texts, and the highest position.
const (
	MaxApplications = 200
	MaxGroups       = 100
	MaxName         = 64
	MaxDescription  = 200
	MaxPosition     = 9999
)

// Application is what stands behind the guard.
type Application struct {
	ID          int64 // set by the store, which never gives it to another
	Slug        string
	Name        string
	Description string
	// URL is /path/ on the portal's host, or an origin, as ParseURL returns it.
	URL  string
	Rule Rule
	// Group is the slug of the group that the rule Group names; else empty.
	Group string
	// SecondFactor demands that a session was proved by more than a password.
	SecondFactor bool
	// Tokens reports that app tokens are accepted.
	Tokens   bool
	Color    string
	Position int // on the start page; equal ones are ordered by name
	Route    Route
	// Reached reports that a user was led to the application, a probe found it, or a command, or a release before
	// routes, created it.
	Reached bool
	// Icon is the SHA-256 of its picture, hexadecimal; empty: it has none.
	Icon string
}

// Icon is the picture of an application. The zero value is none.
type Icon struct {
	Hash string // SHA-256 of PNG, hexadecimal
	PNG  []byte
}

// HasHost reports whether the application has a host of its own.
func (a Application) HasHost() bool { return !strings.HasPrefix(a.URL, "/") }

// OwnHost returns the host of an application that has one of its own, as Host returns it; else "".
func (a Application) OwnHost() string {
	_, host, _ := strings.Cut(a.URL, "://")
	return host
}

// Permits reports whether the rule admits a user with a role and groups.
func (a Application) Permits(role string, groups []string) bool {
	switch a.Rule {
	case Login:
		return true
	case Admin:
		return role == "admin"
	case Group:
		return a.Group != "" && slices.Contains(groups, a.Group)
	default:
		return false
	}
}

// UserGroup is a group of users.
type UserGroup struct {
	ID      int64
	Slug    string
	Name    string
	Members []string // usernames, sorted
	// MemberIDs are the ids of the members, sorted.
	MemberIDs []int64
}

// Errors of fields, and of a store.
var (
	ErrSlug = errors.New("slug is not 1 to 32 lower-case letters, digits and hyphens, or a group's is that " +
		"of a role")
	ErrName        = errors.New("name is blank, has more than 64 characters, or control characters")
	ErrDescription = errors.New("description has more than 200 characters, or control characters")
	ErrURL         = errors.New("address is neither /path/ nor an https origin without a path")
	ErrRule        = errors.New("rule is neither login nor admin nor group with a group")
	ErrPosition    = errors.New("position is not a whole number from 0 to 9999")

	// ErrIconTooLarge is returned for a file of more than 256 KiB or 1024 pixels a side, and for a picture that
	// cannot be encoded small enough.
	ErrIconTooLarge = errors.New("picture is too large for an application")

	ErrNotFound      = errors.New("no such application")
	ErrGroupNotFound = errors.New("no such group")
	ErrSlugTaken     = errors.New("slug is taken")
	ErrURLTaken      = errors.New("address is taken by another application")
	// ErrGroupUsed is returned for a group to remove that an application's rule names.
	ErrGroupUsed = errors.New("an application's rule names the group")
	ErrTooMany   = errors.New("too many of them")
)

var slugPattern = regexp.MustCompile(`\A[a-z0-9-]{1,32}\z`)

// CheckSlug returns ErrSlug unless s is 1 to 32 lower-case ASCII letters, digits and
// hyphens.
func CheckSlug(s string) error {
	if !slugPattern.MatchString(s) {
		return ErrSlug
	}
	return nil
}

// CheckGroupSlug is CheckSlug for a group. It also returns ErrSlug for the name of a role:
// applications get role and groups in one list.
func CheckGroupSlug(s string) error {
	if s == "admin" || s == "member" {
		return ErrSlug
	}
	return CheckSlug(s)
}

// CleanName returns a name without surrounding white space. ErrName.
func CleanName(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" || !isLine(s, MaxName) {
		return "", ErrName
	}
	return s, nil
}

// CleanDescription is CleanName for a description, which may be empty. ErrDescription.
func CleanDescription(s string) (string, error) {
	s = strings.TrimSpace(s)
	if !isLine(s, MaxDescription) {
		return "", ErrDescription
	}
	return s, nil
}

func isLine(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) })
}

var pathPattern = regexp.MustCompile(`\A/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*\z`)

// ownPaths are the prefixes, in lower case, under which no application may be: the proxy has uses of its own for them.
var ownPaths = []string{
	"/pforte/", "/api/", "/internal/", "/v1/", "/mcp/", "/health/", "/.well-known/", "/openapi.json/", "/llms.txt/",
}

// ParseURL returns an application's address in its one spelling: /path/, or an origin in
// lower case without default port and trailing dot. A host name that is not ASCII has to be in
// Punycode, as browsers send it. plainHTTP permits origins of http. ErrURL.
func ParseURL(s string, plainHTTP bool) (string, error) {
	if strings.HasPrefix(s, "/") {
		lower := strings.ToLower(s)
		own := slices.ContainsFunc(ownPaths, func(path string) bool { return strings.HasPrefix(lower, path) })
		if len(s) > MaxDescription || own || !pathPattern.MatchString(s) {
			return "", ErrURL
		}
		return s, nil
	}
	scheme, host, found := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "https" && (scheme != "http" || !plainHTTP) {
		return "", ErrURL
	}
	host, ok := Host(scheme, host)
	if !ok {
		return "", ErrURL
	}
	return scheme + "://" + host, nil
}

// IsAt reports whether a host, as in the header Host, is that of an origin. Both are compared in
// the one spelling that Host returns, so that case and the default port do not matter.
func IsAt(origin, host string) bool {
	scheme, want, _ := strings.Cut(strings.ToLower(origin), "://")
	want, known := Host(scheme, want)
	host, ok := Host(scheme, host)
	return known && ok && host == want
}

var namePattern = regexp.MustCompile(`\A[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\z`)

// Host returns the one spelling of a host with an optional port, as in an origin or the
// header Host: in lower case, without a trailing dot and the default port of the scheme.
// It reports whether s is such a host.
func Host(scheme, s string) (string, bool) {
	u, err := url.Parse("//" + s)
	if err != nil || u.Host != s || len(s) > 255 {
		return "", false
	}
	name, port := strings.ToLower(u.Hostname()), u.Port()
	if strings.Contains(name, ":") {
		addr, err := netip.ParseAddr(name)
		if err != nil || addr.Zone() != "" {
			return "", false
		}
		name = "[" + addr.String() + "]"
	} else if name = strings.TrimSuffix(name, "."); !namePattern.MatchString(name) {
		return "", false
	}
	if strings.HasSuffix(s, ":") {
		return "", false
	}
	if port == "" || port == map[string]string{"http": "80", "https": "443"}[scheme] {
		return name, true
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", false
	}
	return name + ":" + port, true
}
