package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// App is an application of the list. Each member has the one form that parseApp takes.
type App struct {
	Slug string
	// Name is a text for people, as the function text returns it.
	Name string
	// Host is the application's own, without a port. Where it is empty the application is below Path, which ends in a
	// slash, at the site's hosts.
	Host, Path string
	// To is where the proxy calls it: http://host:port or https://host:port.
	To string
	// Strip removes Path, all but the slash at its end, from the paths of requests.
	Strip bool
	// UserHeader is one more request header that names the user; empty: none.
	UserHeader string
	// Pin is the SHA-256 of the public key that its certificate must have, hexadecimal; empty: To is http.
	Pin string
}

// Reasons why an entry of the list is not served or not reached.
const (
	skipForm        = "form"
	skipOwn         = "own"
	skipHeader      = "header"
	skipAddress     = "address"
	skipCertificate = "certificate"
	skipMany        = "many"
)

// Bounds of an answer with the list. Above maxListBytes or maxNever it is refused; applications above maxApps and
// probes above maxProbes are left out.
const (
	maxListBytes = 1 << 20
	maxApps      = 500
	maxNever     = 1024 // auth's machine has an address in each network of containers
	maxProbes    = 16
)

var (
	slugForm = regexp.MustCompile(`\A[a-z0-9-]{1,32}\z`)
	// hostForm has the port in its second group.
	hostForm = regexp.MustCompile(`\A([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)(?::([1-9][0-9]{0,4}))?\z`)
	pathForm = regexp.MustCompile(`\A/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)+\z`)
	toForm   = regexp.MustCompile(`\A(https?)://([a-z0-9._-]+|\[[0-9a-f:]+\]):([1-9][0-9]{0,4})\z`)
	nameForm = regexp.MustCompile(`\A[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\z`)
	// numberForm matches a last label that makes a resolver take the name for an IPv4 address, such as that of
	// 127.1.
	numberForm = regexp.MustCompile(`\A(?:[0-9]+|0x[0-9a-f]*)\z`)
	pinForm    = regexp.MustCompile(`\A[0-9a-f]{64}\z`)
	probeForm  = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,64}\z`)
)

// ownPaths are the prefixes, in lower case, under which no application may be: the Caddyfile has uses of its own for
// them.
var ownPaths = []string{"/pforte/", "/api/", "/internal/", "/v1/", "/mcp/", "/health/", "/.well-known/"}

// userHeaders are the names that UserHeader may have: the Caddyfile removes them from requests of
// clients.
var userHeaders = []string{
	"Remote-User", "X-Authenticated-User", "X-Authentik-Username", "X-Forwarded-Preferred-Username", "X-Forwarded-User",
	"X-Remote-User", "X-User", "X-User-Name", "X-Username", "X-Webauth-User",
}

var errList = errors.New("no list of version 1")

// appList is an answer with the list.
type appList struct {
	etag, household string
	apps            []App
	// never are the addresses host:port at which, as auth says, no application may be.
	never []string
	// skipped has why entries are not in apps, by slug.
	skipped map[string]string
	probes  []probe
}

// probe is the question whether something answers at an address.
type probe struct{ id, to string }

// parseList reads an answer with the list. Nothing in it is trusted, because it becomes a part of Caddy's
// configuration: an application that is wrong, has the slug or place of one before it, or is above maxApps is left out,
// and the others serve. Its errors wrap errList.
func parseList(b []byte) (*appList, error) {
	var in struct {
		Version   int               `json:"version"`
		ETag      string            `json:"etag"`
		Household string            `json:"household"`
		Apps      []json.RawMessage `json:"apps"`
		Never     []string          `json:"never"`
		Probe     []struct {
			ID string `json:"id"`
			To string `json:"to"`
		} `json:"probe"`
	}
	if len(b) > maxListBytes {
		return nil, fmt.Errorf("%w: it is too long", errList)
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("%w: %w", errList, err)
	}
	if in.Version != 1 || in.Apps == nil || len(in.ETag) > 128 {
		return nil, errList
	}
	if len(in.Never) > maxNever {
		return nil, fmt.Errorf("%w: no application may be at %d addresses, more than %d", errList, len(in.Never),
			maxNever)
	}
	list := &appList{etag: in.ETag, household: text(in.Household), never: in.Never, skipped: map[string]string{}}
	taken := map[string]bool{}
	for _, raw := range in.Apps {
		app, fault := parseApp(raw)
		place := "//" + app.Host + app.Path // which no slug is
		switch {
		case fault != "":
		case taken[place] || taken[app.Slug]:
			fault = skipForm
		case len(list.apps) == maxApps:
			fault = skipMany
		}
		if fault == "" {
			taken[place], taken[app.Slug] = true, true
			list.apps = append(list.apps, app)
		} else if app.Slug != "" && !taken[app.Slug] && len(list.skipped) < maxApps {
			list.skipped[app.Slug] = fault
		}
	}
	for _, p := range in.Probe[:min(len(in.Probe), maxProbes)] {
		if probeForm.MatchString(p.ID) && len(p.To) <= 300 {
			list.probes = append(list.probes, probe{p.ID, p.To})
		}
	}
	return list, nil
}

// parseApp returns an entry of the list, and as fault the reason why it cannot be served, "" if it can.
// The slug is empty where it is not valid itself.
func parseApp(raw []byte) (app App, fault string) {
	var in struct {
		Slug       string `json:"slug"`
		Name       string `json:"name"`
		Host       string `json:"host"`
		Path       string `json:"path"`
		To         string `json:"to"`
		Strip      bool   `json:"strip"`
		UserHeader string `json:"user_header"`
		Pin        string `json:"pin"`
	}
	err := json.Unmarshal(raw, &in)
	if !slugForm.MatchString(in.Slug) {
		return App{}, skipForm
	}
	app = App{
		Slug: in.Slug, Name: text(in.Name), Path: in.Path, To: in.To, Strip: in.Strip && in.Path != "",
		UserHeader: in.UserHeader, Pin: in.Pin,
	}
	if err != nil || (in.Host == "") == (in.Path == "") || len(in.Host) > 255 || len(in.Path) > 200 {
		return app, skipForm
	}
	if in.Host != "" {
		parts := hostForm.FindStringSubmatch(in.Host)
		if parts == nil || !isPort(parts[2]) && parts[2] != "" {
			return app, skipForm
		}
		app.Host = parts[1] // auth compares the port, as it does for the operator's own lines
	} else if !pathForm.MatchString(in.Path) {
		return app, skipForm
	}
	own := func(path string) bool { return strings.HasPrefix(lowerPath(in.Path), path) }
	target, ok := parseTarget(in.To)
	switch {
	case slices.ContainsFunc(ownPaths, own):
		return app, skipOwn
	case !ok:
		return app, skipAddress
	case in.UserHeader != "" && !slices.Contains(userHeaders, in.UserHeader):
		return app, skipHeader
	case target.tls != (in.Pin != "") || target.tls && !pinForm.MatchString(in.Pin):
		return app, skipCertificate
	}
	return app, ""
}

type target struct {
	tls bool
	// dial is host:port.
	dial string
	// addr is not valid where the host is a name.
	addr netip.AddrPort
}

// parseTarget returns where to leads, and reports whether it has the form of App.To.
func parseTarget(to string) (target, bool) {
	parts := toForm.FindStringSubmatch(to)
	if parts == nil || len(to) > 300 || !isPort(parts[3]) {
		return target{}, false
	}
	host := strings.Trim(parts[2], "[]")
	t := target{tls: parts[1] == "https", dial: parts[2] + ":" + parts[3]}
	if addr, err := netip.ParseAddr(host); err == nil {
		t.addr, err = netip.ParseAddrPort(t.dial)
		return t, err == nil && addr.String() == host && !addr.Is4In6()
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return t, nameForm.MatchString(host) && !numberForm.MatchString(last) && len(host) <= 253
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// text returns at most 64 characters of a text for people, without ASCII control characters and what is no UTF-8.
func text(s string) string {
	const most = 64
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most])
	}
	return s
}
