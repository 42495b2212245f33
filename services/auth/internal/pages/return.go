package pages

import (
	"net/url"
	"strings"
)

// maxReturn bounds a path to return to, in bytes.
const maxReturn = 2048

// safeReturn returns the path to which a login leads, or the start page when it is not a
// path on this host. Another host is never named by a path.
func safeReturn(to string) string {
	if safePath(to) {
		return to
	}
	return root
}

func safePath(to string) bool {
	if len(to) > maxReturn || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		return false
	}
	for _, b := range []byte(to) {
		if b < 0x20 || b == 0x7f {
			return false
		}
	}
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return false
	}
	// Servers and browsers that decode the path once more must not read a host in it
	// either. A query may hold a path of its own.
	if strings.Contains(u.Path, "//") || strings.Contains(u.Path, `\`) || strings.Contains(u.Path, "%") {
		return false
	}
	for _, b := range []byte(u.Path) {
		if b < 0x20 || b == 0x7f {
			return false
		}
	}
	for _, segment := range strings.Split(u.Path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return u.Path != root+"logout" && !strings.HasPrefix(u.Path, "/api/")
}

// escapeReturn returns a path as the value of a query's parameter.
func escapeReturn(to string) string { return url.QueryEscape(safeReturn(to)) }
