package edge

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

var errAlert = &net.OpError{Op: "remote error", Err: errors.New("internal error")}

// A public authority counts failures: visitors cause none, and the proxy's own attempts are few.
func TestHands_AFailureIsTriedAgainLaterAndByNoVisitor(t *testing.T) {
	t.Parallel()
	h := hands{hosts: map[string]*hand{}}
	hosts := map[string]*App{"photos.example.org": {Slug: "photos"}}
	const host = "photos.example.org"
	now := time.Unix(1_800_000_000, 0)
	attempts := 0
	for end := now.Add(time.Hour); now.Before(end); now = now.Add(time.Second) {
		for range h.due(hosts, now) {
			attempts++
			if !h.mayTry(host, now) {
				t.Fatal("the proxy's own attempt is refused")
			}
			h.shaken(host, errAlert, isRefusal(errAlert), now)
		}
		if h.mayTry(host, now) {
			t.Fatal("a visitor causes an attempt")
		}
	}
	if attempts != 5 {
		t.Errorf("%d attempts in an hour", attempts)
	}
	if h.due(hosts, now.Add(shakeLatest)); !h.shaken(host, nil, false, now) || !h.certified(host) || !h.mayTry(host, now) {
		t.Error("a certificate changes nothing")
	}
	if len(h.due(hosts, now.Add(shakeAgain-time.Second))) != 0 || len(h.due(hosts, now.Add(shakeAgain))) != 1 {
		t.Error("the hand is not shaken again after two hours")
	}
}

// The server's own time for a handshake may end before a public authority answers. The certificate is there soon.
func TestHands_AHandshakeThatWasTooSlowIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	h := hands{hosts: map[string]*hand{}}
	hosts := map[string]*App{"a.example.org": {}}
	now := time.Now()
	h.due(hosts, now)
	if h.shaken("a.example.org", io.EOF, isRefusal(io.EOF), now); !h.mayTry("a.example.org", now) || len(h.due(hosts, now.Add(shakeSoon))) != 1 {
		t.Error("it is taken for a refusal")
	}
	if h.due(nil, now); len(h.hosts) != 1 {
		t.Error("a host whose hand is shaken is forgotten")
	}
	h.shaken("a.example.org", nil, false, now)
	if h.due(nil, now); len(h.hosts) != 0 {
		t.Error("a host that is no more is kept")
	}
}

func TestPermission_IsForHostsOfTheListAlone(t *testing.T) {
	t.Parallel()
	a := &Applications{}
	a.hands.hosts = map[string]*hand{}
	a.now.Store(&listing{appList: new(appList), hosts: map[string]*App{"photos.example.org": {Slug: "photos"}}})
	p := &Permission{a}
	for name, allowed := range map[string]bool{
		"photos.example.org": true, "PHOTOS.example.org": true, "": false, "example.org": false, "x.photos.example.org": false,
		"photos.example.org.": false, "*.example.org": false, "photos.example.org:443": false,
	} {
		err := p.CertificateAllowed(t.Context(), name)
		if (err == nil) != allowed || err != nil && !errors.Is(err, caddytls.ErrPermissionDenied) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestOwnIssuer_IsForNamesThatNoPublicAuthorityHas(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{
		"notes.home.internal": true, "notes.fritz.local": true, "notes.home.arpa": true, "notes.localhost": true, "192.168.1.2": true,
		"notes.example.org": false, "internal.example.org": false,
	} {
		if err := new(OwnIssuer).PreCheck(t.Context(), []string{name}, false); (err == nil) != own {
			t.Errorf("%s: %v", name, err)
		}
	}
}
