package policy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/token"
)

// WrongTokens is how many wrong app tokens an address may present in a minute.
const WrongTokens = 10

// NewTokenLimit returns the TokenLimit of a Service, as create makes it.
func NewTokenLimit(create ratelimit.Create) (*ratelimit.Limiter, error) {
	return create("apptoken", WrongTokens, time.Minute)
}

// ErrTooManyTokens comes in a ratelimit.LimitedError.
var ErrTooManyTokens = errors.New("too many wrong app tokens")

// PresentedToken is TokenVisitor with a limit of wrong tokens. networks are those of the client's
// address, from the narrowest to the widest. A client that presented too many wrong tokens is refused by
// this process without SQL or Redis until its window ends (but see maxRemembered), unless the token was right when the
// process last looked it up: the other devices behind one address go on. token.ErrInvalid; ratelimit.LimitedError with
// ErrTooManyTokens.
func (s *Service) PresentedToken(
	ctx context.Context, text, username string, networks []string,
) (token.Token, Visitor, error) {
	hash := secrets.Hash(text)
	if d, refused := s.wrongTokens.refused(networks, hash, s.o.Now()); refused {
		return token.Token{}, Visitor{}, &ratelimit.LimitedError{Limit: d, Err: ErrTooManyTokens}
	}
	t, v, err := s.TokenVisitor(ctx, text, username)
	if err == nil || errors.Is(err, token.ErrInvalid) {
		s.wrongTokens.found(hash, err == nil)
	}
	if !errors.Is(err, token.ErrInvalid) {
		return t, v, err
	}
	d, failed := s.o.TokenLimit.Spend(ctx, networks...)
	switch {
	case failed != nil:
		return token.Token{}, Visitor{}, failed
	case !d.Allowed:
		s.wrongTokens.refuse(exhaustedNetwork(networks, d), d, s.o.Now())
		return token.Token{}, Visitor{}, &ratelimit.LimitedError{Limit: d, Err: ErrTooManyTokens}
	}
	return token.Token{}, Visitor{}, err
}

// exhaustedNetwork returns the network whose window d describes, which has no attempts left. The limit of d tells
// which it is: each network has 4 times the attempts of the narrower one (ratelimit.Limiter).
func exhaustedNetwork(networks []string, d ratelimit.Decision) string {
	limit := WrongTokens
	for _, network := range networks {
		if d.Limit == limit {
			return network
		}
		limit *= 4
	}
	return networks[0]
}

// maxRemembered bounds each of the two maps of wrongTokens. A full one is emptied: a client is
// refused again after its next wrong token, and a token is remembered again after its next use.
const maxRemembered = 4096

// wrongTokens remembers in memory which clients the limit refuses, and which tokens were right.
type wrongTokens struct {
	mu     sync.Mutex
	until  map[string]refusal // by network
	rights map[string]bool    // hashes of tokens that were right
}

type refusal struct {
	limit ratelimit.Decision
	ends  time.Time
}

// refused reports whether a client of these networks is refused, and returns the state of its
// limit now. With a token in rights it is not refused.
func (w *wrongTokens) refused(networks []string, hash string, now time.Time) (ratelimit.Decision, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rights[hash] {
		return ratelimit.Decision{}, false
	}
	for _, network := range networks {
		r, ok := w.until[network]
		if ok && now.Before(r.ends) {
			r.limit.Reset = r.ends.Sub(now)
			return r.limit, true
		}
		delete(w.until, network)
	}
	return ratelimit.Decision{}, false
}

func (w *wrongTokens) refuse(network string, d ratelimit.Decision, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until == nil || len(w.until) >= maxRemembered {
		w.until = map[string]refusal{}
	}
	w.until[network] = refusal{d, now.Add(d.Reset)}
}

// found remembers a token that was right, and forgets one that was not.
func (w *wrongTokens) found(hash string, right bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !right {
		delete(w.rights, hash)
		return
	}
	if w.rights == nil || len(w.rights) >= maxRemembered {
		w.rights = map[string]bool{}
	}
	w.rights[hash] = true
}
