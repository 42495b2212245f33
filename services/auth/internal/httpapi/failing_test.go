package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/sqlstore"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// The stores of the tests, which fail while they are broken.

type failingUsers struct {
	*sqlstore.Users
	broken *atomic.Bool
	// brokenRehash makes Rehash fail only
	brokenRehash *atomic.Bool
}

func failure(broken *atomic.Bool) error {
	if broken.Load() {
		return errStore
	}
	return nil
}

func (f failingUsers) ByUsername(ctx context.Context, name string) (user.User, error) {
	if err := failure(f.broken); err != nil {
		return user.User{}, err
	}
	return f.Users.ByUsername(ctx, name)
}

func (f failingUsers) ByID(ctx context.Context, id int64) (user.User, error) {
	if err := failure(f.broken); err != nil {
		return user.User{}, err
	}
	return f.Users.ByID(ctx, id)
}

func (f failingUsers) List(ctx context.Context) ([]user.User, error) {
	if err := failure(f.broken); err != nil {
		return nil, err
	}
	return f.Users.List(ctx)
}

func (f failingUsers) Create(ctx context.Context, n user.New, by session.Session) (user.User, error) {
	if err := failure(f.broken); err != nil {
		return user.User{}, err
	}
	return f.Users.Create(ctx, n, by)
}

func (f failingUsers) Rehash(ctx context.Context, id int64, from, to string) error {
	if err := failure(f.brokenRehash); err != nil {
		return err
	}
	return f.Users.Rehash(ctx, id, from, to)
}

func (f failingUsers) Delete(ctx context.Context, id int64, by session.Session) (user.Revocation, error) {
	if err := failure(f.broken); err != nil {
		return user.Revocation{}, err
	}
	return f.Users.Delete(ctx, id, by)
}

type failingSessions struct {
	session.Store
	broken *atomic.Bool
	// brokenRevoke makes Revoke fail only, brokenDelete Delete
	brokenRevoke, brokenDelete *atomic.Bool
}

func (f failingSessions) Load(ctx context.Context, ref session.Ref, lifetimes session.Lifetimes) (session.Session, error) {
	if err := failure(f.broken); err != nil {
		return session.Session{}, err
	}
	return f.Store.Load(ctx, ref, lifetimes)
}

func (f failingSessions) Create(ctx context.Context, s session.Session, fence string, lifetimes session.Lifetimes) error {
	if err := failure(f.broken); err != nil {
		return err
	}
	return f.Store.Create(ctx, s, fence, lifetimes)
}

func (f failingSessions) Delete(ctx context.Context, ref session.Ref) error {
	if err := failure(f.brokenDelete); err != nil {
		return err
	}
	return f.Store.Delete(ctx, ref)
}

func (f failingSessions) Revoke(ctx context.Context, userID int64, keep string) (int, error) {
	if err := errors.Join(failure(f.broken), failure(f.brokenRevoke)); err != nil {
		return 0, err
	}
	return f.Store.Revoke(ctx, userID, keep)
}

// policyReads counts the reads of the guard, which fail while it is broken.
type policyReads struct {
	broken *atomic.Bool
	reads  *atomic.Int64
}

func (h *fixture) reads() policyReads { return policyReads{h.brokenPolicy, h.policyReads} }

func (p policyReads) read() error {
	p.reads.Add(1)
	return failure(p.broken)
}

// The interfaces have other names than their methods, so that they can be embedded.
type (
	applicationStore = policy.Applications
	groupStore       = policy.Groups
	tokenStore       = policy.Tokens
)

type failingApplications struct {
	applicationStore
	policyReads
}

func (f failingApplications) Applications(ctx context.Context) ([]application.Application, error) {
	if err := f.read(); err != nil {
		return nil, err
	}
	return f.applicationStore.Applications(ctx)
}

type failingGroups struct {
	groupStore
	policyReads
}

func (f failingGroups) Visitor(ctx context.Context, id int64) (user.User, []string, error) {
	if err := f.read(); err != nil {
		return user.User{}, nil, err
	}
	return f.groupStore.Visitor(ctx, id)
}

type failingTokens struct {
	tokenStore
	policyReads
}

func (f failingTokens) TokenVisitor(ctx context.Context, hash string) (token.Token, user.User, []string, error) {
	if err := f.read(); err != nil {
		return token.Token{}, user.User{}, nil, err
	}
	return f.tokenStore.TokenVisitor(ctx, hash)
}

// failingLimits is a hook of the Redis client that limits use. It does not keep to their timeout, which miniredis
// exceeds on a slow machine when 100 come at once.
type failingLimits struct{ broken *atomic.Bool }

func (failingLimits) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f failingLimits) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := failure(f.broken); err != nil {
			return err
		}
		return next(context.WithoutCancel(ctx), cmd)
	}
}

func (failingLimits) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// panicking is a session store with a bug.
type panicking struct {
	session.Store
	abort bool
}

func (p panicking) Fence(context.Context, int64) (string, error) {
	if p.abort {
		panic(http.ErrAbortHandler)
	}
	panic("a bug in the store")
}

// heldLinks calls fixture.beforeLink.
type heldLinks struct {
	*sqlstore.Links
	h *fixture
}

func (l heldLinks) CreateLink(ctx context.Context, made link.Link, hash string, by session.Session) (link.Link, error) {
	if before := l.h.beforeLink; before != nil {
		l.h.beforeLink = nil
		before()
	}
	return l.Links.CreateLink(ctx, made, hash, by)
}
