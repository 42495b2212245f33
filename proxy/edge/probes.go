package edge

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"
)

// probeWithin is how long an address has for its answer.
const probeWithin = 3 * time.Second

// probeAnswer is what a probe found after MS milliseconds: nothing of the answer but its status and the key of a
// certificate, or as Error why there is none.
type probeAnswer struct {
	ID     string `json:"id"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	MS     int64  `json:"ms"`
	Pin    string `json:"pin,omitempty"`
}

// probeClient returns a client for probes: no proxy of the environment, no redirects, no connection that is kept.
func (a *Applications) probeClient() *http.Client {
	return &http.Client{
		Timeout: probeWithin, CheckRedirect: noRedirect,
		Transport: &http.Transport{
			DialContext: a.reach.dialer(probeWithin), DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
			// The certificate is known by its key, which auth keeps with the address.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		},
	}
}

// probe begins probes, at most maxProbes at once and none that is under way or has an answer (by its id). The next
// question tells auth what was found.
func (a *Applications) probe(ctx context.Context, all []probe) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range all {
		if a.probing[p.id] || len(a.probing) >= maxProbes ||
			slices.ContainsFunc(a.answers, func(known probeAnswer) bool { return known.ID == p.id }) {
			continue // what is left is asked again
		}
		a.probing[p.id] = true
		go func() {
			answer := a.tryAddress(ctx, p)
			a.mu.Lock()
			delete(a.probing, p.id)
			a.answers = append(a.answers, answer)
			a.mu.Unlock()
			a.askSoon()
		}()
	}
}

func (a *Applications) tryAddress(ctx context.Context, p probe) probeAnswer {
	answer := probeAnswer{ID: p.id}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	target, ok := parseTarget(p.to)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.to+"/", nil)
	if !ok || err != nil || a.reach.entry(ctx, target) != nil {
		answer.Error = skipAddress
		return answer
	}
	r.Header.Set("User-Agent", "Pforte")
	r.Header.Set(hopHeader, a.hop)
	begun := time.Now()
	res, err := a.probes.Do(r)
	answer.MS = time.Since(begun).Milliseconds()
	if err != nil {
		answer.Error = probeFault(err)
		return answer
	}
	_ = res.Body.Close()
	answer.Status = res.StatusCode
	if res.TLS != nil {
		answer.Pin = pinOf(*res.TLS)
	}
	return answer
}

// pinOf returns the SHA-256 of the key of a server's certificate, hexadecimal, or "" where there is none.
func pinOf(state tls.ConnectionState) string {
	if len(state.PeerCertificates) == 0 {
		return ""
	}
	sum := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// probeFault returns auth's word for an error.
func probeFault(err error) string {
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isAlert := errors.AsType[tls.AlertError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	fault, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errReach):
		return skipAddress
	case isDNS:
		return "name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case isAlert, isRecord, errors.Is(err, http.ErrSchemeMismatch):
		return "tls"
	case isNet && fault.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "failed"
}
