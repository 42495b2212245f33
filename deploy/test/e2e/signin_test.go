package e2e

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

// signIn is a household whose users sign in to applications by OpenID Connect. Hosts that end
// with .test are this machine's for its browsers.
type signIn struct {
	household
	issuer string
}

// onBothDatabases runs a test of signing in with users on SQLite and on Postgres.
func onBothDatabases(t *testing.T, test func(t *testing.T, s *signIn)) {
	t.Helper()
	for _, database := range []string{"SQLite", "Postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			test(t, newSignIn(t, database, nil))
		})
	}
}

// newSignIn starts a household with a group familie, of which petra is a member and otto is not.
// A change is made to its layout last.
func newSignIn(t *testing.T, database string, change func(l *layout.Layout)) *signIn {
	t.Helper()
	s, settings := &signIn{}, map[string]string{}
	if database == "Postgres" {
		users := sqldbtest.Postgres(t)
		if users == "" {
			t.Skip("Postgres is not installed")
		}
		settings["DATABASE_URL"] = users
	}
	o := s.options("localhost", settings)
	if change != nil {
		first := o.change
		o.change = func(l *layout.Layout) { first(l); change(l) }
	}
	s.world = newWorld(t, o)
	s.issuer = s.origin + "/pforte"
	admin := s.admin(t)
	for _, name := range []string{"petra", "otto"} {
		admin.create(name, passwordOfAll)
	}
	s.authCommand(t, "group", "add", "familie", "--name", "Familie")
	s.authCommand(t, "group", "members", "familie", "--add", "petra")
	return s
}

const passwordOfAll = "a password of eight"

var clientSecret = regexp.MustCompile(`pfc_[A-Za-z0-9_-]{43}`)

// client adds an application at an address, for the group familie, that signs in by OpenID
// Connect, and returns its secret; a public one has none.
func (s *signIn) client(t *testing.T, slug, address string, flags ...string) string {
	t.Helper()
	secret := s.enter(t, slug, address, flags...)
	s.known(t, slug, flags...)
	return secret
}

// enter is client without waiting until auth knows it.
func (s *signIn) enter(t *testing.T, slug, address string, flags ...string) string {
	t.Helper()
	s.authCommand(t, "app", "add", slug, address, "--name", slug, "--rule", "group:familie")
	return clientSecret.FindString(s.authCommand(t, append([]string{"oidc", "add", slug}, flags...)...))
}

// known waits until auth, which keeps the clients in memory for a few seconds, knows one that a
// command has added with flags.
func (s *signIn) known(t *testing.T, slug string, flags ...string) {
	t.Helper()
	redirect := flags[slices.Index(flags, "--redirect")+1]
	q := url.Values{"client_id": {slug}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"}, "prompt": {"none"}}
	stranger := s.person(t, "nobody")
	eventually(t, "auth knows "+slug, func(context.Context) error {
		resp, err := stranger.Transport.RoundTrip(stranger.navigate(s.issuer + "/oidc/authorize?" + q.Encode()))
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusSeeOther && resp.StatusCode != http.StatusFound {
			return fmt.Errorf("a request of authorization is answered %d", resp.StatusCode)
		}
		return nil
	})
}

// leave takes petra out of the group familie, and join puts them back.
func (s *signIn) leave(t *testing.T) {
	s.authCommand(t, "group", "members", "familie", "--remove", "petra")
}

func (s *signIn) join(t *testing.T) {
	s.authCommand(t, "group", "members", "familie", "--add", "petra")
}

// remove deletes a user.
func (s *signIn) remove(t *testing.T, username string) {
	t.Helper()
	admin := s.admin(t)
	var all struct{ Data []member }
	admin.request("GET", "/api/v1/auth/users", "").want(t, 200, &all)
	for _, u := range all.Data {
		if u.Username == username {
			admin.request("DELETE", fmt.Sprintf("/api/v1/auth/users/%d", u.ID), "").want(t, 200, nil)
			return
		}
	}
	t.Fatalf("there is no user %s in %+v", username, all)
}

// person is a user at a browser, who fills in what the portal asks.
type person struct {
	*browser
	username string
	// asked are the paths of the pages whose forms they have sent.
	asked []string
}

// person returns a user without a session.
func (s *signIn) person(t *testing.T, username string) *person {
	t.Helper()
	p := &person{browser: newBrowser(t, s.origin), username: username}
	p.Transport = thisMachine()
	p.CheckRedirect = func(_ *http.Request, via []*http.Request) error {
		if len(via) > 20 {
			return errors.New("more than 20 redirects")
		}
		return nil
	}
	return p
}

// thisMachine connects to this machine for every host, as a browser with the hosts of the
// test in its machine's table.
func thisMachine() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
	}}
}

// navigate is a request as a browser sends it that opens an address.
func (p *person) navigate(address string) *http.Request {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	req.Header.Set("Accept-Language", "en")
	return req
}

// shown opens an address, follows redirects and returns the page that is shown.
func (p *person) shown(address string) answer { p.t.Helper(); return p.send(p.navigate(address)) }

// open opens an address and sends the forms of the portal's pages on the way: the login, the
// proof of who one is, the question whether to go on. It returns what is shown at the end.
func (p *person) open(address string) answer {
	p.t.Helper()
	a := p.shown(address)
	for range 5 {
		at := a.Request.URL
		if at.Host != p.origin.Host || a.StatusCode != http.StatusOK {
			return a
		}
		switch at.Path {
		case "/pforte/login", "/pforte/reauth", "/pforte/continue":
			a = p.submit(a, "", "username", p.username, "password", passwordOfAll)
		default:
			return a
		}
	}
	p.t.Fatalf("the portal goes on asking: %v", p.asked)
	return answer{}
}

var (
	formsOf    = regexp.MustCompile(`(?s)<form\b([^>]*)>(.*?)</form>`)
	fieldsOf   = regexp.MustCompile(`(?s)<(input|button|textarea)\b([^>]*)>`)
	attributes = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// htmlForm is a form of a page: where it is sent and with what.
type htmlForm struct {
	method, action string
	fields         url.Values
	buttons        [][2]string
}

// forms returns the forms of a page.
func (a answer) forms() (all []htmlForm) {
	of := func(tag string) map[string]string {
		found := map[string]string{}
		for _, m := range attributes.FindAllStringSubmatch(tag, -1) {
			found[m[1]] = html.UnescapeString(m[2])
		}
		return found
	}
	for _, m := range formsOf.FindAllSubmatch(a.body, -1) {
		tag := of(string(m[1]))
		f := htmlForm{method: strings.ToUpper(tag["method"]), action: tag["action"], fields: url.Values{}}
		for _, field := range fieldsOf.FindAllStringSubmatch(string(m[2]), -1) {
			at := of(field[2])
			switch {
			case field[1] == "button" || at["type"] == "submit":
				f.buttons = append(f.buttons, [2]string{at["name"], at["value"]})
			case at["name"] != "" && (at["type"] != "checkbox" && at["type"] != "radio" || strings.Contains(field[2], " checked")):
				f.fields.Add(at["name"], at["value"])
			}
		}
		all = append(all, f)
	}
	return all
}

// submit sends the form of a page that is sent to its own path, or to the path to, with values
// in those of its fields that are named, by its first button or the one whose value is the last
// of an odd number of values.
func (p *person) submit(a answer, to string, values ...string) answer {
	p.t.Helper()
	if to == "" {
		to = a.Request.URL.Path
	}
	for _, f := range a.forms() {
		action, err := a.Request.URL.Parse(f.action)
		if err != nil {
			p.t.Fatal(err)
		}
		if action.Path != to {
			continue
		}
		if len(f.buttons) > 0 && f.buttons[0][0] != "" {
			f.fields.Set(f.buttons[0][0], f.buttons[0][1])
		}
		for i := 0; i+1 < len(values); i += 2 {
			if f.fields.Has(values[i]) {
				f.fields.Set(values[i], values[i+1])
			}
		}
		if len(values)%2 == 1 {
			chosen := values[len(values)-1]
			for _, b := range f.buttons {
				if b[1] == chosen {
					f.fields.Set(b[0], b[1])
				}
			}
		}
		p.asked = append(p.asked, a.Request.URL.Path)
		req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, action.String(), strings.NewReader(f.fields.Encode()))
		if err != nil {
			p.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", a.Request.URL.Scheme+"://"+a.Request.URL.Host)
		req.Header.Set("Accept", "text/html")
		return p.send(req)
	}
	p.t.Fatalf("%s has no form to %s: %d %s", a.Request.URL, to, a.StatusCode, a.body)
	return answer{}
}

// party is an application's end of a sign-in, on a host of its own: it keeps what comes to
// its addresses.
type party struct {
	server *httptest.Server
	origin string

	mu      sync.Mutex
	arrived map[string][]arrival
}

// arrival is what came to an address of a party.
type arrival struct {
	method string
	values url.Values // of the query and the form
	at     time.Time
}

// newParty listens as NAME.test.
func newParty(t *testing.T, name string) *party {
	t.Helper()
	p := &party{arrived: map[string][]arrival{}}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.arrived[r.URL.Path] = append(p.arrived[r.URL.Path], arrival{r.Method, r.Form, time.Now()})
		_, _ = fmt.Fprint(w, "here is "+name)
	}))
	t.Cleanup(p.server.Close)
	_, port := split(p.server.Listener.Addr().String())
	p.origin = "http://" + name + ".test:" + port
	return p
}

// take returns the last arrival at a path and forgets all of that path.
func (p *party) take(path string) (arrival, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.arrived[path]
	delete(p.arrived, path)
	if len(all) == 0 {
		return arrival{}, false
	}
	return all[len(all)-1], true
}

// callback returns what the provider sent to /cb.
func (p *party) callback(t *testing.T) url.Values {
	t.Helper()
	a, ok := p.take("/cb")
	if !ok {
		t.Fatal("the provider led nobody back to the application")
	}
	return a.values
}

// signInRecipe returns the first block of code of a product's section of the page about signing
// in, with other values.
func signInRecipe(t *testing.T, product string, change ...string) string {
	t.Helper()
	page, err := os.ReadFile(top + "/deploy/docs/signin.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?ms)^##+ ` + regexp.QuoteMeta(product) + `[^\n]*\n(.*?)(?:^##|\z)`).FindSubmatch(page)
	if section == nil {
		t.Fatalf("the page has no recipe of %s", product)
	}
	code := block.FindSubmatch(section[1])
	if code == nil {
		t.Fatalf("the recipe of %s has no block of code", product)
	}
	return strings.NewReplacer(change...).Replace(string(code[2]))
}

// settingsOf returns the lines NAME=value of a block of code, without quotes and comments.
func settingsOf(code string) (env []string) {
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		line = strings.TrimPrefix(strings.TrimPrefix(line, "export "), "- ")
		if name, value, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") && !strings.Contains(name, " ") {
			env = append(env, name+"="+strings.Trim(value, `"'`))
		}
	}
	return env
}

// recipe returns the recipe of a product with the values of this household: of an application
// at the address origin, with a secret.
func (s *signIn) recipe(t *testing.T, product, slug, origin, secret string) string {
	t.Helper()
	return signInRecipe(t, product,
		"https://home.example.org", s.origin, "https://"+slug+".example.org", origin, slug+".example.org", strings.TrimPrefix(origin, "http://"), "pfc_…", secret)
}

// application starts a program that signs in, with its settings and a folder of its own.
func (s *signIn) application(t *testing.T, name, path string, env []string, ready func(context.Context) error, args ...string) {
	t.Helper()
	home := t.TempDir()
	program := stack.Program{
		Name: name, Path: path, Args: args, Ready: ready, Optional: true,
		Env: append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...),
	}
	if err := s.Start(t.Context(), program); err != nil {
		t.Fatal(stack.Explain(err))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said:\n%s", name, s.log(t, name))
		}
		s.Programs.Kill(name)
	})
}

// installed is the path of a program that npm installed among the applications. Without it the
// test is skipped; CI has it.
func installed(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join("applications/node_modules", path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v, and CI is set", err)
		}
		t.Skip(err)
	}
	return full
}

// within repeats a check until it holds, and fails the test where that takes longer than a
// time. It returns how long it took.
func within(t *testing.T, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}
