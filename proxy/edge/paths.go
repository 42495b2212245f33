package edge

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// unambiguous reports whether all usual servers read the same path in a request
// target: those that decode it never, once or twice, that resolve dot segments,
// merge slashes, take a backslash for one, cut parameters off a segment at ";", or
// read it as a name of Windows, which trims dots and spaces at its end and takes
// "x::$INDEX_ALLOCATION" for the folder x. Letters may be of any case, and the last
// segment may end in dots or spaces. An encoded slash inside a segment may stand: a server
// that decodes it sees more segments behind the same beginning. A target that does not
// begin with a slash is ambiguous, and one with a space, in its query too: HTTP/2 lets it pass, and in HTTP/1.1
// it would end the target.
func unambiguous(target string) bool {
	raw, _, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(raw, "/") || strings.Contains(raw, "#") || strings.Contains(target, " ") {
		return false // a whole URL, "*", a host, a fragment, or the rest of a request line
	}
	path, err := url.PathUnescape(raw)
	if err != nil || !utf8.ValidString(path) || strings.ContainsFunc(path, splits) || strings.Contains(path, ":$") ||
		decodesAgain(path) {
		return false
	}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		last := i == len(segments)-1
		trimmed := strings.TrimRight(segment, ". ")
		if trimmed == "" && (segment != "" || !last) || trimmed != segment && !last {
			return false
		}
	}
	return true
}

// splits reports whether some servers end a segment or the path at r.
func splits(r rune) bool { return r == '\\' || r == ';' || unicode.IsControl(r) }

// decodesAgain reports whether a decoded path has something left to decode.
func decodesAgain(path string) bool {
	for {
		_, rest, found := strings.Cut(path, "%")
		if !found {
			return false
		}
		if len(rest) >= 2 && isHex(rest[0]) && isHex(rest[1]) || strings.HasPrefix(strings.ToLower(rest), "u") {
			return true
		}
		path = rest
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// Path is a matcher for exceptions from a guard. It matches a path as it is
// passed on, byte for byte: Caddy's own matcher "path" decodes and ignores the
// case, so it would also match what an application takes for another path. A
// pattern that ends in "*" matches what begins with the rest of it.
type Path []string

// CaddyModule returns the Caddy module information.
func (Path) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.edge_path", New: func() caddy.Module { return new(Path) }}
}

// UnmarshalCaddyfile reads: edge_path <patterns...>.
func (p *Path) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		patterns := d.RemainingArgs()
		if len(patterns) == 0 {
			return d.ArgErr()
		}
		*p = append(*p, patterns...)
		if d.NextBlock(d.Nesting()) {
			return d.Err("edge_path has no block")
		}
	}
	return nil
}

// MatchWithError implements caddyhttp.RequestMatcherWithError.
func (p Path) MatchWithError(r *http.Request) (bool, error) {
	return names(p).has(r.URL.EscapedPath()), nil
}
