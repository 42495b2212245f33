// Package checkpage holds the page that checks receipts in the browser, which pkg/receipt's
// checker/page writes into the folder built before the verifier is compiled, as make build,
// the images and the releases do.
package checkpage

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
)

// The prefix all: is for a build without the page, where the folder has only its .gitignore.
//
//go:embed all:built
var built embed.FS

// Built returns the page, compressed by gzip; nil where the program was compiled without it.
func Built() []byte {
	page, err := built.ReadFile("built/check.html.gz")
	if err != nil {
		return nil
	}
	return page
}

// Site is what the page may offer of the site that serves it. The reader decides whether
// to use it.
type Site struct {
	Name string              `json:"name"` // the host, or the public URL where that has none
	Keys receipt.KeyDocument `json:"keys"`
	// Log is the path of the newest log of receipts, and Policy the list of the logs (receiptlog.Directory),
	// in JSON; both are empty where none is offered.
	Log    string `json:"log,omitempty"`
	Policy string `json:"policy,omitempty"`
	// Finality lists the chains with proofs of finality, by their names in paths.
	Finality []string `json:"finality,omitempty"`
}

const (
	// empty is the text in the built page that Make replaces by what the site offers.
	empty = `<script type="application/json" id="site">null</script>`
	// maxPage bounds the page in bytes.
	maxPage = 16 << 20
)

// Make returns the page of a site, plain: the one that Built returned, with what the site offers in it; and the
// page's own Content-Security-Policy.
func Make(compressed []byte, site Site) (html []byte, policy string, err error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, "", fmt.Errorf("checkpage: %w", err)
	}
	html, err = io.ReadAll(io.LimitReader(r, maxPage))
	if err != nil {
		return nil, "", fmt.Errorf("checkpage: %w", err)
	}
	_, rest, found := strings.Cut(string(html), `<meta http-equiv="Content-Security-Policy" content="`)
	policy, _, closed := strings.Cut(rest, `"`)
	if !found || !closed || bytes.Count(html, []byte(empty)) != 1 {
		return nil, "", errors.New("checkpage: this is not the page that checks receipts")
	}
	offered, err := json.Marshal(site) // which escapes what would end the element
	if err != nil {
		return nil, "", fmt.Errorf("checkpage: %w", err)
	}
	full := strings.Replace(empty, "null", string(offered), 1)
	return bytes.Replace(html, []byte(empty), []byte(full), 1), policy, nil
}
