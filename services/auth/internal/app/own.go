package app

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pforte/pforte/services/auth/internal/config"
)

// ownAge is after how long the names in ownAddresses are resolved again; ownTimeout bounds how long that takes.
const (
	ownAge     = 30 * time.Second
	ownTimeout = time.Second
)

// ownAddresses are the addresses of auth and its stores, to which no application's route may lead: as in the
// settings, and what their names resolve to.
type ownAddresses struct {
	settings []string // host:port; without a host, or with 0.0.0.0 or [::], the port at all addresses of the machine

	mu    sync.Mutex
	until time.Time
	known []string
}

func newOwnAddresses(cfg *config.Config) *ownAddresses {
	o := &ownAddresses{settings: []string{cfg.Addr, cfg.AdminAddr}}
	if target, err := config.ParseRedisURL(cfg.RedisURL); err == nil {
		o.settings = append(o.settings, target.Addrs...)
	}
	if u, err := url.Parse(cfg.DatabaseURL); err == nil && strings.HasPrefix(u.Scheme, "postgres") && u.Host != "" {
		for host := range strings.SplitSeq(u.Host, ",") {
			if _, _, err := net.SplitHostPort(host); err != nil {
				host += ":5432"
			}
			o.settings = append(o.settings, host)
		}
	}
	return o
}

// list returns the addresses, sorted. What it finds is kept for later requests, so that the end of ctx does not cut it.
func (o *ownAddresses) list(ctx context.Context) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); now.After(o.until) {
		o.until = now.Add(ownAge)
		if resolved, err := o.resolve(context.WithoutCancel(ctx)); err == nil || o.known == nil {
			o.known = resolved
		}
	}
	return o.known
}

// resolve returns the addresses that it could find, sorted, and the errors of names that it could not resolve.
func (o *ownAddresses) resolve(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	var all []string
	var failed error
	for _, setting := range o.settings {
		host, port, err := net.SplitHostPort(setting)
		if err != nil {
			continue
		}
		addr, err := netip.ParseAddr(host)
		switch {
		case host == "" || err == nil && addr.IsUnspecified():
			all = append(all, interfaces(port)...)
		case err == nil:
			all = append(all, net.JoinHostPort(addr.Unmap().String(), port))
		default:
			all = append(all, strings.ToLower(host)+":"+port)
			found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			failed = errors.Join(failed, err)
			for _, addr := range found {
				all = append(all, net.JoinHostPort(addr.Unmap().String(), port))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), failed
}

// interfaces returns a port at each address of this machine that is not link-local.
func interfaces(port string) []string {
	found, _ := net.InterfaceAddrs()
	var all []string
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			all = append(all, net.JoinHostPort(n.IP.String(), port))
		}
	}
	return all
}
