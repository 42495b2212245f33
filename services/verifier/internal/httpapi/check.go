package httpapi

import (
	"compress/gzip"
	"context"
	"net/url"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/services/verifier/internal/checkpage"
)

// checkPath is the path of the page that checks receipts in the browser.
const checkPath = "/v1/check"

// checkPage keeps the page as it was made last.
type checkPage struct {
	mu   sync.Mutex
	site checkpage.Site
	// answer serves the page of site; nil until it is made.
	answer echo.HandlerFunc
}

// checkPage answers with the page that checks receipts.
func (a *api) checkPage(c echo.Context) error {
	if a.CheckPage == nil {
		return errNoCheckPage
	}
	ctx := c.Request().Context()
	site, unread := a.site(ctx)
	if unread != nil {
		if ctx.Err() != nil {
			return unread
		}
		a.Log.WarnContext(ctx, "the page that checks receipts offers the log as it was read last", "error", unread)
	}
	answer, err := a.check.with(a.CheckPage, site, unread == nil)
	if err != nil {
		return err
	}
	return answer(c)
}

// site returns what the page is made with. After an error it is all but the log.
func (a *api) site(ctx context.Context) (checkpage.Site, error) {
	site := checkpage.Site{Name: a.PublicURL, Keys: a.Keys}
	if address, err := url.Parse(a.PublicURL); err == nil && address.Host != "" {
		site.Name = address.Host
	}
	for _, chain := range a.Chains {
		if chain.Finality != nil {
			site.Finality = append(site.Finality, chain.Name)
		}
	}
	if a.Receipts == nil {
		return site, nil
	}
	list, err := a.logReads.read(ctx, a.Receipts.Directory)
	if err != nil {
		return site, err
	}
	directory, err := receiptlog.ParseDirectory(list)
	if err != nil {
		return site, err
	}
	site.Log, site.Policy = directory.Logs[0].Prefix, string(list)
	return site, nil
}

// with returns the handler of the page for a site. It makes the page anew when the log or its policy
// has changed; where they were not read, the page that was made last is kept.
func (p *checkPage) with(built []byte, site checkpage.Site, read bool) (echo.HandlerFunc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.site.Log != site.Log || p.site.Policy != site.Policy // the rest does not change
	if p.answer == nil || read && changed {
		html, policy, err := checkpage.Make(built, site)
		if err != nil {
			return nil, err
		}
		p.site, p.answer = site, shown(html, policy)
	}
	return p.answer, nil
}

// shown is [document] with the headers of a page that people look at. A 304 has them too.
func shown(html []byte, policy string) echo.HandlerFunc {
	policy += "; frame-ancestors 'none'"
	answer := document("text/html; charset=utf-8", html, gzip.BestSpeed) // most of it is compressed already, in base64
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		return answer(c)
	}
}

// acceptsGzip reports whether the values of Accept-Encoding allow gzip (RFC 9110, section 12.5.3). What
// they say of gzip counts before what they say of "*". Without either it is false.
func acceptsGzip(values []string) bool {
	all := false
	for _, each := range strings.Split(strings.ToLower(strings.Join(values, ",")), ",") {
		name, quality, _ := strings.Cut(each, ";")
		taken := strings.TrimRight(strings.ReplaceAll(quality, " ", ""), ".0") != "q="
		switch strings.TrimSpace(name) {
		case "gzip":
			return taken
		case "*":
			all = taken
		}
	}
	return all
}
