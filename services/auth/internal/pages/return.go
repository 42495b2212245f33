package pages

import (
	"net/url"

	"github.com/pforte/pforte/services/auth/internal/returnpath"
)

// safeReturn returns the path to, if a login may lead there (returnpath.Safe), else the start page.
func safeReturn(to string) string { return returnpath.Safe(to, root) }

// escapeReturn returns safeReturn(to) as the value of a query's parameter.
func escapeReturn(to string) string { return url.QueryEscape(safeReturn(to)) }
