package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// askWithin is how long one replica of auth has for its answer, firstWithin how long Start waits for one.
const (
	askWithin   = 3 * time.Second
	firstWithin = time.Second
)

// askAgain is how soon auth is asked again where there is something to tell.
const askAgain = 50 * time.Millisecond

// question is what auth is asked, with what it needs to know for its pages.
type question struct {
	Proxy   string            `json:"proxy"`
	Apps    string            `json:"apps"`
	Named   []string          `json:"named,omitempty"`
	TLS     string            `json:"tls,omitempty"`
	Have    string            `json:"have"`
	Skipped map[string]string `json:"skipped,omitempty"`
	Probed  []probeAnswer     `json:"probed,omitempty"`
	// Certified are the slugs of the applications at whose host there is a certificate.
	Certified []string `json:"certified,omitempty"`
}

// run asks auth each a.every, at random by up to a tenth more or less, so that proxies do not ask in step, and
// sooner after askSoon, until ctx ends.
func (a *Applications) run(ctx context.Context) {
	for {
		next := time.NewTimer(a.every*9/10 + rand.N(a.every/5+1)) //nolint:gosec // any number will do
		select {
		case <-ctx.Done():
		case <-next.C:
		case <-a.wake:
			next.Reset(askAgain)
			select {
			case <-ctx.Done():
			case <-next.C:
			}
		}
		next.Stop()
		if ctx.Err() != nil {
			return
		}
		a.note(a.ask(ctx))
	}
}

func (a *Applications) askSoon() {
	select {
	case a.wake <- struct{}{}:
	default: // run is to be woken already
	}
}

// note logs when auth stops returning the list, and when it returns it again.
func (a *Applications) note(err error) {
	switch {
	case err != nil && !a.failing:
		a.log.Warn("auth gives no list of applications; the last one stays", "error", err)
	case err == nil && a.failing:
		a.log.Info("auth gives the list of applications again")
	}
	a.failing = err != nil
}

// ask asks auth for the list, the next replica where one fails to answer. An answer with no list, or with one that is
// not valid, leaves the last one as it is.
func (a *Applications) ask(ctx context.Context) error {
	q, told := a.question()
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("ask for applications: %w", err)
	}
	var failed error
	for range a.Auth {
		answer, err := a.post(ctx, a.Auth[a.next%len(a.Auth)], body)
		if err != nil {
			a.next++
			failed = errors.Join(failed, err)
			continue
		}
		a.forgetAnswers(told)
		if answer == nil {
			return nil
		}
		list, err := parseList(answer)
		if err != nil {
			return err
		}
		if list.etag == "" || list.etag != q.Have {
			a.take(ctx, list)
			a.keep(answer)
			a.askSoon()
		}
		a.probe(context.WithoutCancel(ctx), list.probes)
		return nil
	}
	return failed
}

// question returns what is asked now, and how many answers to probes are in it.
func (a *Applications) question() (question, int) {
	list := a.now.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	skipped := map[string]string{}
	maps.Copy(skipped, list.skipped)
	maps.Copy(skipped, a.faults)
	var certified []string
	for host, app := range list.hosts {
		if a.certificates.certified(host) {
			certified = append(certified, app.Slug)
		}
	}
	return question{
		Proxy: a.id, Apps: a.Mode, Named: a.To, TLS: a.TLS, Have: list.etag, Skipped: skipped,
		Probed: slices.Clone(a.answers), Certified: certified,
	}, len(a.answers)
}

// forgetAnswers forgets the first n answers to probes, which auth has now.
func (a *Applications) forgetAnswers(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = slices.Clone(a.answers[n:])
}

// post asks one replica of auth and returns its answer. It is nil if the proxy has the list already and there is
// nothing to probe.
func (a *Applications) post(ctx context.Context, auth string, question []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+auth+"/internal/routes",
		bytes.NewReader(question))
	if err != nil {
		return nil, fmt.Errorf("ask for applications: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := a.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask for applications: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxListBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask for applications: %w", err)
	case res.StatusCode == http.StatusNoContent:
		return nil, nil
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask for applications: %s answers with status %d", auth, res.StatusCode)
	}
	return b, nil
}
