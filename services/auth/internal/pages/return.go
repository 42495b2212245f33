package pages

import (
	"net/url"

	"github.com/pforte/pforte/services/auth/internal/returnpath"
)

// safeReturn returns the path to return to after a login, or the start page when it is not a
// path on this host. A path never names another host.
func safeReturn(to string) string { return returnpath.Safe(to, root) }

// escapeReturn returns a path as the value of a query's parameter.
func escapeReturn(to string) string { return url.QueryEscape(safeReturn(to)) }
