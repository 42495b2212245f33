package edge

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the pages
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/text/language"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.json
	pageTexts []byte
)

// Page is a handler for the route for errors, and for an answer of reverse_proxy that people cannot read. It answers a
// person who opened a page or sent a form with a page that says what happened, in German or English, and passes all
// other requests on. The page needs no service: its style is in it, and it has no script. While what is missing may
// come back, the page reloads itself, unless it answers a form.
type Page struct{ pages *pages }

// CaddyModule returns the Caddy module information.
func (Page) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.edge_page", New: func() caddy.Module { return new(Page) }}
}

// Provision implements caddy.Provisioner.
func (p *Page) Provision(ctx caddy.Context) (err error) {
	p.pages, err = newPages(ctx)
	return err
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	sent := r
	x, err := exchangeOf(r)
	if err == nil {
		sent = x.received
	}
	if !isNavigation(sent.Method, sent.Header) {
		return next.ServeHTTP(w, r)
	}
	status := http.StatusInternalServerError
	switch fault := r.Context().Value(caddyhttp.ErrorCtxKey).(type) {
	case nil:
		repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		if answered, known := repl.Get("http.reverse_proxy.status_code"); known {
			status, _ = answered.(int)
		}
	case caddyhttp.HandlerError:
		if fault.StatusCode != 0 {
			status = fault.StatusCode
		}
	}
	return p.pages.fault(w, sent, status, x != nil && x.own)
}

// isNavigation reports whether a person opens a page, or sends a form, and so reads the answer. auth tells people from
// programs by much the same headers (isNavigation and sendsForm of its package access).
func isNavigation(method string, h http.Header) bool {
	if method != http.MethodGet && method != http.MethodHead && method != http.MethodPost ||
		len(h["Upgrade"]) > 0 || len(h["Sec-Websocket-Version"]) > 0 || len(h["Sec-Websocket-Key"]) > 0 {
		return false
	}
	for name := range h {
		if strings.HasPrefix(name, "Sec-Fetch-") {
			dest := one(h["Sec-Fetch-Dest"])
			return one(h["Sec-Fetch-Mode"]) == "navigate" && (dest == "document" || dest == "empty")
		}
	}
	return len(h["X-Requested-With"]) == 0 && slices.ContainsFunc(h["Accept"], func(value string) bool {
		return strings.Contains(value, "text/html") // as browsers write it
	})
}

func one(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return ""
}

// languageOf returns de where a browser asks for German before English, and else en.
func languageOf(h http.Header) string {
	wanted, _, err := language.ParseAcceptLanguage(strings.Join(h["Accept-Language"], ","))
	if err != nil {
		return "en"
	}
	for _, tag := range wanted {
		if base, _ := tag.Base(); base.String() == "de" || base.String() == "en" {
			return base.String()
		}
	}
	return "en"
}

type pages struct {
	apps     *Applications // nil where there is no list
	template *template.Template
	texts    map[string]map[string]string // by language and key
	policy   []string
}

func newPages(ctx caddy.Context) (*pages, error) {
	t, err := template.New("").Parse(pageHTML)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	sum := sha256.Sum256([]byte(pageCSS))
	p := &pages{template: t, policy: []string{
		"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}}
	if err := json.Unmarshal(pageTexts, &p.texts); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p.apps, _ = applicationsOf(ctx) // an error says that there is none
	return p, nil
}

// page is what each page shows.
type page struct {
	Lang, Title, Household string
	T                      map[string]string
	Style                  template.CSS
}

func (p *pages) begin(r *http.Request) page {
	v := page{Lang: languageOf(r.Header), Style: template.CSS(pageCSS)} //nolint:gosec // a file of ours
	v.T = p.texts[v.Lang]
	if p.apps != nil {
		v.Household = p.apps.Household()
	}
	return v
}

// fault answers with the page of an error. login is whether the error is of the service of logins.
func (p *pages) fault(w http.ResponseWriter, r *http.Request, status int, login bool) error {
	v := struct {
		page
		Initial, Then, Back string
		Again, Home         bool
	}{page: p.begin(r), Home: true}
	reads := r.Method != http.MethodPost
	passes := status == http.StatusBadGateway || status == http.StatusServiceUnavailable ||
		status == http.StatusGatewayTimeout ||
		login && status == http.StatusInternalServerError // as without its stores
	away := passes && (login || status != http.StatusServiceUnavailable)
	name := ""
	if p.apps != nil {
		name = p.apps.nameAt(r)
	}
	switch key := strconv.Itoa(status); {
	case away && login:
		v.Title, v.Home = v.T["login"], false
	case away && name != "":
		v.Title = fmt.Sprintf(v.T["502"], name)
		initial, _ := utf8.DecodeRuneInString(name)
		v.Initial = strings.ToUpper(string(initial))
	case away:
		v.Title = v.T["away"]
	case v.T[key] != "":
		v.Title, v.Then = v.T[key], v.T[key+" then"]
	default:
		v.Title = v.T["other"]
	}
	h := w.Header()
	if passes {
		v.Again, v.Then = reads, v.T["soon"]
		if len(h["Retry-After"]) == 0 {
			h["Retry-After"] = retryAfter
		}
	}
	if passes && reads {
		h["Refresh"] = []string{"5"}
	}
	if !reads {
		v.Home, v.Then, v.Back = false, "", cameFrom(r)
		if passes {
			v.Then = v.T["retry"]
		}
	}
	return p.send(w, status, "fault", v)
}

func (p *pages) send(w http.ResponseWriter, status int, name string, v any) error {
	var body bytes.Buffer
	if err := p.template.ExecuteTemplate(&body, name, v); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = []string{"text/html; charset=utf-8"}, []string{"no-store"}
	h["Content-Security-Policy"], h["X-Frame-Options"] = p.policy, []string{"DENY"}
	w.WriteHeader(status)
	_, err := w.Write(body.Bytes())
	return err
}

// cameFrom returns the page of the same host that a form was on, and else the start page.
func cameFrom(r *http.Request) string {
	from, err := url.Parse(r.Header.Get("Referer"))
	if err != nil || from.Scheme != "http" && from.Scheme != "https" || from.Host != r.Host || from.User != nil {
		return "/pforte/"
	}
	return from.String()
}

// nameAt returns the name of the application at a request's host or, of those at its path, at the longest; or "".
func (a *Applications) nameAt(r *http.Request) (name string) {
	if app, found := a.Host(hostOf(r)); found {
		return app.Name
	}
	longest, path := 0, lowerPath(r.URL.Path)
	for _, app := range a.now.Load().apps {
		if app.Path != "" && len(app.Path) > longest && strings.HasPrefix(path, lowerPath(app.Path)) {
			name, longest = app.Name, len(app.Path)
		}
	}
	return name
}

var (
	_ caddyhttp.MiddlewareHandler = (*Page)(nil)
	_ caddy.Provisioner           = (*Page)(nil)
)
