package edge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Applications is the Caddy app that has the list of applications for which auth has a route. It asks auth for the
// list, and keeps the last good one in memory and in a file, so that the applications are there while auth is away, and
// after a restart too.
type Applications struct {
	// Mode is where applications may be: lan means private addresses; containers means the networks that the
	// machine is in, except those that lead to the internet. Neither includes networks with auth in them.
	Mode string `json:"mode,omitempty"`
	// To are the addresses that the operator permits as well: address, address:port, name:port or
	// network. Loopback addresses and those in networks with auth need a port.
	To []string `json:"to,omitempty"`
	// Auth has the addresses host:port of auth, Never those of other services. No application may be at any
	// of them.
	Auth  []string `json:"auth,omitempty"`
	Never []string `json:"never,omitempty"`
	// File has the last good list. Where it is empty, it is apps.json in the folder of Caddy's data.
	File string `json:"file,omitempty"`
	// TLS says how the site gets certificates: auto, internal, dns or off. auth is told it, for its pages. Start sets
	// it to off where no port has TLS.
	TLS string `json:"tls,omitempty"`

	// every is how often auth is asked.
	every time.Duration
	// id is the proxy's, and hop what it writes into requests to applications. Both are new with each start.
	id, hop string
	log     *slog.Logger
	reach   *reach
	client  *http.Client
	stop    context.CancelFunc
	asked   sync.WaitGroup
	// ports returns the proxy's own ports, and sets secure. It is called once the whole proxy is provisioned.
	ports func() []uint16
	// secure is the lowest port of https, 0 where there is none. certificates has what is known of the
	// certificates at that port.
	secure       uint16
	certificates certificates

	now atomic.Pointer[listing]
	// next is whom of Auth to ask next, failing whether the last question failed. Only who asks uses them.
	next    int
	failing bool
	wake    chan struct{}
	probes  *http.Client

	mu      sync.Mutex
	routes  map[string]*appRoutes // by template
	faults  map[string]string     // why entries of the list are not served or reached, by slug
	probing map[string]bool
	answers []probeAnswer
}

// listing is a list that is served.
type listing struct {
	*appList
	hosts map[string]*App
}

// CaddyModule returns the Caddy module information.
func (*Applications) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge_apps", New: func() caddy.Module { return new(Applications) }}
}

// parseApplications reads the global option:
//
//	edge_apps off | lan | containers {
//		auth  <address>...
//		never <address>...
//		to    <address>...
//		file  <path>
//		tls   <word>
//	}
func parseApplications(d *caddyfile.Dispenser, _ any) (any, error) {
	a := new(Applications)
	d.Next()
	if !d.Args(&a.Mode) || d.NextArg() {
		return nil, d.ArgErr()
	}
	for d.NextBlock(0) {
		what, args := d.Val(), d.RemainingArgs()
		switch {
		case what == "auth":
			a.Auth = append(a.Auth, args...)
		case what == "never":
			a.Never = append(a.Never, args...)
		case what == "to":
			a.To = append(a.To, args...)
		case what == "file" && len(args) < 2:
			a.File = strings.Join(args, "")
		case what == "tls" && len(args) == 1:
			a.TLS = args[0]
		default:
			return nil, d.Errf("edge_apps: wrong name or number of arguments: %s", what)
		}
	}
	if a.Mode == "off" {
		return nil, nil //nolint:nilnil // no app
	}
	return httpcaddyfile.App{Name: "edge_apps", Value: caddyconfig.JSON(a, nil)}, nil
}

// applicationsOf returns the app of a configuration, and an error where there is none.
func applicationsOf(ctx caddy.Context) (*Applications, error) {
	app, err := ctx.AppIfConfigured("edge_apps")
	if err != nil {
		return nil, fmt.Errorf("the global option edge_apps is not set: %w", err)
	}
	return app.(*Applications), nil
}

// Provision implements caddy.Provisioner.
func (a *Applications) Provision(ctx caddy.Context) error {
	if len(a.Auth) == 0 {
		return errors.New("edge_apps: auth is missing")
	}
	a.every = cmp.Or(a.every, time.Second)
	if a.File == "" {
		a.File = filepath.Join(caddy.AppDataDir(), "apps.json")
	}
	var err error
	if a.reach, err = newReach(a.Mode, a.To, a.Auth, a.Never); err != nil {
		return err
	}
	a.certificates.hosts = map[string]*certificate{}
	a.ports = func() []uint16 {
		all, secure := ownPorts(ctx)
		a.secure = secure
		return all
	}
	a.log = ctx.Slogger()
	a.id, a.hop = rand.Text(), rand.Text()
	a.routes, a.faults = map[string]*appRoutes{}, map[string]string{}
	a.probing, a.wake = map[string]bool{}, make(chan struct{}, 1)
	a.client = &http.Client{
		Timeout: askWithin, CheckRedirect: noRedirect,
		Transport: &http.Transport{MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 55 * time.Second},
	}
	a.probes = a.probeClient()
	a.now.Store(&listing{appList: new(appList)})
	a.load()
	return nil
}

// load takes the list from the file, where there is one.
func (a *Applications) load() {
	b, err := os.ReadFile(a.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var list *appList
	if err == nil {
		list, err = parseList(b)
	}
	if err != nil {
		a.log.Error("the file with the last list of applications is of no use", "file", a.File, "error", err)
		return
	}
	list.etag = "" // auth says with its first answer whether it is still this one
	a.take(context.Background(), list)
}

// keep replaces the file by an answer with the list, whole or not at all.
func (a *Applications) keep(answer []byte) {
	err := os.MkdirAll(filepath.Dir(a.File), 0o700)
	var file *os.File
	if err == nil {
		file, err = os.CreateTemp(filepath.Dir(a.File), ".apps-*") // for its owner alone
	}
	if err == nil {
		_, err = file.Write(answer)
		err = errors.Join(err, file.Sync(), file.Close())
		if err == nil {
			err = os.Rename(file.Name(), a.File)
		}
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}
	if err != nil {
		a.log.Error("the list of applications is not kept", "file", a.File, "error", err)
	}
}

// take makes a list the one that is served. Entries whose address is not permitted are moved to its skipped.
func (a *Applications) take(ctx context.Context, list *appList) {
	a.reach.report(list.never)
	serve := &listing{appList: list, hosts: map[string]*App{}}
	list.apps = slices.DeleteFunc(list.apps, func(app App) bool {
		target, _ := parseTarget(app.To)
		err := a.reach.entry(ctx, target)
		if err != nil {
			list.skipped[app.Slug] = skipAddress
		}
		return err != nil
	})
	for i := range list.apps {
		if app := &list.apps[i]; app.Host != "" {
			serve.hosts[app.Host] = app
		}
	}
	a.now.Store(serve)
	a.mu.Lock()
	clear(a.faults)
	routes := slices.Collect(maps.Values(a.routes))
	a.mu.Unlock()
	for _, t := range routes {
		a.serve(t)
	}
	a.log.Info("applications", "served", len(list.apps), "skipped", list.skipped)
}

// Host returns the application with a host, and reports whether there is one. The host has no port; upper and
// lower case are the same.
func (a *Applications) Host(host string) (App, bool) {
	if app := a.now.Load().hosts[strings.ToLower(host)]; app != nil {
		return *app, true
	}
	return App{}, false
}

// Household returns the household's name, empty where it is not known.
func (a *Applications) Household() string { return a.now.Load().household }

// fault notes why an entry of the list is not served or reached, for at most maxApps entries, and with an empty reason
// that it is.
func (a *Applications) fault(slug, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if reason == "" {
		delete(a.faults, slug)
		return
	}
	if len(a.faults) < maxApps {
		a.faults[slug] = reason
	}
}

// Start implements caddy.App. It asks auth once before it returns, for at most firstWithin.
func (a *Applications) Start() error {
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.reach.setPorts(a.ports())
	if a.secure == 0 {
		a.TLS = "off" // the site is plain http
	}
	first, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	a.note(a.ask(first))
	a.asked.Go(func() { a.run(ctx) })
	if a.secure != 0 {
		a.asked.Go(func() { a.runHandshakes(ctx) })
	}
	return nil
}

// Stop implements caddy.App.
func (a *Applications) Stop() error {
	a.stop()
	a.asked.Wait()
	a.client.CloseIdleConnections()
	return nil
}

// Cleanup implements caddy.CleanerUpper.
func (a *Applications) Cleanup() error {
	for _, t := range a.routes {
		t.update(nil)
	}
	return nil
}

// ownPorts returns the ports at which the proxy is, and the lowest of those with TLS, 0 if there is none.
func ownPorts(ctx caddy.Context) (all []uint16, secure uint16) {
	app, err := ctx.AppIfConfigured("http")
	if err != nil {
		return nil, 0
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		for _, listen := range server.Listen {
			at, err := caddy.ParseNetworkAddress(listen)
			if err != nil {
				continue
			}
			for port := at.StartPort; port <= at.EndPort && port <= 65535; port++ {
				all = append(all, uint16(port))
				if len(server.TLSConnPolicies) > 0 && (secure == 0 || uint16(port) < secure) {
					secure = uint16(port)
				}
			}
		}
	}
	return all, secure
}

// hostOf returns the host of a request as the list has it: without a port, in lower case.
func hostOf(r *http.Request) string {
	host, _, _ := strings.Cut(r.Host, ":") // an IPv6 address is no host of the list
	return strings.ToLower(host)
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

var (
	_ caddy.App          = (*Applications)(nil)
	_ caddy.Provisioner  = (*Applications)(nil)
	_ caddy.CleanerUpper = (*Applications)(nil)
)
