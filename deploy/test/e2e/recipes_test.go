package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// recipe is a section of the page about applications.
type recipe struct {
	entered []string // commands of auth
	prepare []string // further commands
	server  string   // the last command, which stays; empty: there is none
	routes  string
	files   []string // settings
}

var block = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// readRecipe returns the section with a title, with other hosts and ports.
func readRecipe(t *testing.T, title string, change *strings.Replacer) (r recipe) {
	t.Helper()
	page, err := os.ReadFile(top + "/deploy/docs/applications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n### "+title+"\n")
	if !found {
		t.Fatalf("the page has no section %s", title)
	}
	section, _, _ = strings.Cut(section, "\n##")
	for _, match := range block.FindAllStringSubmatch(change.Replace(section), -1) {
		switch match[1] {
		case "caddyfile":
			r.routes += match[2]
		case "sh":
			for line := range strings.Lines(match[2]) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "auth ") {
					r.entered = append(r.entered, line)
				} else {
					r.prepare = append(r.prepare, line)
				}
			}
		default:
			r.files = append(r.files, match[2])
		}
	}
	return r
}

// applications is a household with applications behind its guard, as the page describes them.
type applications struct {
	household
	folder  string
	recipes map[string]recipe
}

// pagesPorts are those of the page, which the tests replace by free ones.
var pagesPorts = []string{"5232", "8085", "8086"}

// newApplications starts a household with the applications of some sections of the page. The
// portal is localhost, and the applications are on hosts of another site.
func newApplications(t *testing.T, titles ...string) applications {
	t.Helper()
	node(t)
	a := applications{folder: t.TempDir(), recipes: map[string]recipe{}}
	free := map[string]string{}
	for _, port := range pagesPorts {
		_, free[port] = split(freeAddr(t))
	}
	o := a.options("localhost", nil)
	change := o.change
	o.change = func(l *layout.Layout) {
		change(l)
		l.Extra["pforte-proxy"]["ROUTES"] = "" // those of the page alone
		_, port, _ := strings.Cut(strings.TrimPrefix(a.origin, "http://"), ":")
		pairs := []string{
			"https://home.example.org", a.origin, "https://wiki.example.org", "http://wiki.localhost:" + port, "https://files.example.net", "http://files.test:" + port, "https://board.example.org", "http://board.localhost:" + port,
			"wiki.example.org", "wiki.localhost", "files.example.net", "files.test", "board.example.org", "board.localhost",
			"/etc/radicale/config", "radicale.conf", "/var/lib/radicale", a.folder, "/srv/", a.folder + "/",
		}
		for _, of := range pagesPorts {
			pairs = append(pairs, ":"+of, ":"+free[of], "port="+of, "port="+free[of])
		}
		for _, title := range titles {
			r := readRecipe(t, title, strings.NewReplacer(pairs...))
			if n := len(r.prepare); n > 0 {
				r.prepare, r.server = r.prepare[:n-1], r.prepare[n-1]
			}
			a.recipes[title] = r
			l.Extra["pforte-proxy"]["ROUTES"] += r.routes
		}
	}
	o.before = func(layout.Layout) (servers []stack.Program) {
		for _, title := range titles {
			r := a.recipes[title]
			a.prepareServer(t, r)
			if r.server == "" {
				continue
			}
			port := regexp.MustCompile(`(?m)(?:^hosts = 127\.0\.0\.1:|port=|--addr 127\.0\.0\.1:)(\d+)`).FindStringSubmatch(strings.Join(append(r.files, r.server), "\n"))
			servers = append(servers, stack.Program{
				Name: strings.Fields(r.server)[0] + port[1], Path: "/bin/sh", Args: []string{"-c", "cd " + a.folder + " && exec " + r.server}, Env: a.env(), Ready: stack.Listening("127.0.0.1:" + port[1]),
			})
		}
		return servers
	}
	a.world = newWorld(t, o)
	for _, title := range titles {
		for _, command := range a.recipes[title].entered {
			a.sh(t, command)
		}
	}
	return a
}

// prepareServer does what comes before an application's server.
func (a applications) prepareServer(t *testing.T, r recipe) {
	t.Helper()
	modules, err := filepath.Abs("clients/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(a.folder, "node_modules")
	if _, err := os.Lstat(link); err != nil {
		if err := os.Symlink(modules, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, content := range r.files {
		if strings.HasPrefix(content, "[server]") {
			if err := os.WriteFile(filepath.Join(a.folder, "radicale.conf"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(a.folder, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range r.prepare {
		a.sh(t, command)
	}
}

// env is the environment of the applications and of the operator's commands.
func (a applications) env() []string {
	env := []string{"HOME=" + a.folder, "PATH=" + os.Getenv("PATH")}
	if a.world != nil {
		env = slices.Concat(a.Auth().Env, []string{"HOME=" + a.folder, "PATH=" + a.Bin + ":" + os.Getenv("PATH")})
	}
	return env
}

// sh runs a command of the page, in the folder of the applications, and returns what it
// prints.
func (a applications) sh(t *testing.T, command string) string {
	t.Helper()
	out, err := a.try(t, command)
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return out
}

func (a applications) try(t *testing.T, command string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = a.folder, a.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// needs fails in CI, and skips elsewhere, where a program is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed, and CI is set", program)
		}
		t.Skipf("%s is not installed", program)
	}
}

// resolver is the address of a proxy for clients that knows the hosts of the test, as
// Chromium does by an option.
func (a applications) resolver(t *testing.T) string {
	t.Helper()
	portal, err := url.Parse(a.PublicURL)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(portal)
		p.Out.Host = p.In.Host
	}})
	t.Cleanup(s.Close)
	return s.URL
}

const anEvent = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Pforte//EN\r\nBEGIN:VEVENT\r\nUID:dentist@example.org\r\nDTSTAMP:20261123T080000Z\r\nDTSTART:20261124T080000Z\r\nSUMMARY:Zahnarzt\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

// TestRecipe_CalendarSyncsWithAnAppToken is a CalDAV client that knows nothing but Basic, and a
// second one that gets what the first one wrote. A token that is revoked ends both at once.
func TestRecipe_CalendarSyncsWithAnAppToken(t *testing.T) {
	t.Parallel()
	needs(t, "radicale", "vdirsyncer")
	const title = "Radicale: calendars and contacts"
	a := newApplications(t, title)
	paul, _ := a.member(t, "paul")
	token := paul.token(false, "app:calendar")
	device := func(name string) func(command string) (string, error) {
		home := filepath.Join(a.folder, name)
		if err := os.MkdirAll(filepath.Join(home, ".calendars/family"), 0o700); err != nil {
			t.Fatal(err)
		}
		settings := a.recipes[title].files[1]
		settings = strings.NewReplacer("pft_…", token, "~/", home+"/").Replace(settings)
		if err := os.WriteFile(filepath.Join(home, "config"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(command string) (string, error) {
			return a.try(t, "yes | HOME="+home+" LC_ALL=C.UTF-8 vdirsyncer -c "+home+"/config "+command)
		}
	}
	laptop, phone := device("laptop"), device("phone")
	if err := os.WriteFile(filepath.Join(a.folder, "laptop/.calendars/family/dentist.ics"), []byte(anEvent), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sync := range []func(string) (string, error){laptop, phone} {
		for _, command := range []string{"discover", "sync"} {
			if out, err := sync(command); err != nil {
				t.Fatalf("vdirsyncer %s: %v: %s", command, err, out)
			}
		}
	}
	arrived, err := filepath.Glob(filepath.Join(a.folder, "phone/.calendars/family/*.ics"))
	if err != nil || len(arrived) != 1 {
		t.Fatalf("on the phone are %v, %v", arrived, err)
	}
	if content, err := os.ReadFile(arrived[0]); err != nil || !strings.Contains(string(content), "Zahnarzt") {
		t.Errorf("the phone has %s, %v", content, err)
	}
	if stored, err := filepath.Glob(filepath.Join(a.folder, "collections/collection-root/paul/*/*.ics")); err != nil || len(stored) != 1 {
		t.Errorf("Radicale keeps %v, %v", stored, err)
	}

	paul.revokeToken()
	if out, err := phone("sync"); err == nil || !strings.Contains(out, "401") {
		t.Errorf("with a revoked token: %v, %s", err, out)
	}
	req, err := http.NewRequestWithContext(t.Context(), "PROPFIND", a.origin+"/calendar/paul/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", basic("paul", token))
	refused, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Body.Close()
	if challenges := refused.Header.Values("WWW-Authenticate"); refused.StatusCode != 401 || refused.Header.Get("Location") != "" || len(challenges) != 2 {
		t.Errorf("a revoked token is answered %d %s", refused.StatusCode, refused.Header)
	}
}

// TestRecipe_PasskeyOpensSeveralHosts also stores a file there as a device does that
// has no cookies.
func TestRecipe_PasskeyOpensSeveralHosts(t *testing.T) {
	needs(t, "rclone")
	chromium(t)
	a := newApplications(t, "TiddlyWiki: a notebook", "rclone: files", "Static pages: a PWA")
	if err := os.CopyFS(filepath.Join(a.folder, "board"), os.DirFS("testdata/board")); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(a.origin, "http://"), ":")
	token := a.admin(t).token(false, "app:files")
	if err := os.WriteFile(filepath.Join(a.folder, "letter.txt"), []byte("Liebe Oma"), 0o600); err != nil {
		t.Fatal(err)
	}
	copied := readRecipe(t, "rclone: files", strings.NewReplacer("pft_…", token, "https://files.example.net", "http://files.test:"+port, "copy letters", "copy letter.txt")).files[0]
	a.sh(t, "http_proxy="+a.resolver(t)+" "+strings.TrimSpace(copied))
	for _, lang := range []string{"de", "en"} {
		t.Run(lang, func(t *testing.T) {
			a.journey(t, "applications.mjs", append(a.person(t, "anna", lang), "WIKI=http://wiki.localhost:"+port, "FILES=http://files.test:"+port, "BOARD=http://board.localhost:"+port)...)
		})
	}
}
