package returnpath

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Max bounds a path to return to, with its query, in bytes.
const Max = 2048

// ownPaths are not returned to: logging out, and answers for programs.
var ownPaths = []string{"/pforte/logout", "/api", "/internal"}

// Safe returns to when it is a path on the same host, not at or below one of ownPaths, else fallback. Browsers and
// servers disagree about what a path is, so it refuses what any of them reads as another host, or as another path
// than this program does: also after decoding the path once more. A query may hold a path of its own, which is
// checked where it is used.
func Safe(to, fallback string) string {
	if isSafe(to) {
		return to
	}
	return fallback
}

func isSafe(to string) bool {
	if len(to) > Max || !strings.HasPrefix(to, "/") || strings.Contains(to, `\`) || hasControl(to) ||
		!utf8.ValidString(to) {
		return false
	}
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return false
	}
	if strings.HasPrefix(to, "//") || strings.Contains(u.Path, "//") || strings.ContainsAny(u.Path, `\%`) ||
		hasControl(u.Path) || !utf8.ValidString(u.Path) {
		return false
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		// Some servers cut parameters off a segment before they resolve it.
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." || name == "" && segment != "" {
			return false
		}
	}
	path := strings.ToLower(strings.TrimSuffix(u.Path, "/"))
	for _, own := range ownPaths {
		if path == own || strings.HasPrefix(path, own+"/") {
			return false
		}
	}
	return true
}

// hasControl reports whether s has a control character of ASCII. Browsers drop some of them from addresses.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}
