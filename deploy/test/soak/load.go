package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/redisclient"
)

// load is everybody who uses the stack, and the count of what they did.
type load struct {
	layout.Layout
	admin   *visitor
	members []*visitor
	leaver  int64 // id of the member who never logs out
	tx      atomic.Pointer[string]
	guests  atomic.Int64 // who came so far

	mu     sync.Mutex
	done   map[string]int
	failed map[string]int
	faults []string
}

// maxFaults is how many faults are kept to be shown.
const maxFaults = 20

func newLoad(l layout.Layout) (*load, error) {
	password, err := l.AdminPassword()
	if err != nil {
		return nil, err
	}
	load := &load{Layout: l, done: map[string]int{}, failed: map[string]int{}}
	load.admin = &visitor{base: l.PublicURL, name: layout.AdminName, password: password}
	return load, nil
}

// job is something that is done over and over.
type job struct {
	name  string
	every time.Duration
	do    func(context.Context) error
}

func (l *load) jobs() []job {
	return []job{
		{"GET /me", 50 * time.Millisecond, l.me},
		{"GET /me without a session", 500 * time.Millisecond, l.anonymous},
		{"GET /users", time.Second, l.list},
		{"the guard's question", 200 * time.Millisecond, l.guard},
		{"login, me, logout", 10 * time.Second, l.visit},
		{"login and leave", 15 * time.Second, l.leave},
		{"wrong login", 10 * time.Second, l.wrong},
		{"create a member, delete him", 20 * time.Second, l.member},
		{"verification, unpaid", 100 * time.Millisecond, l.unpaid},
		{"verification, paid", 2 * time.Second, l.paid},
		{"new transaction, verification, paid", 30 * time.Second, l.fresh},
	}
}

// start prepares those who stay logged in and begins all jobs; the channel is
// closed when all have ended.
func (l *load) start(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	if err := errors.Join(l.prepare(ctx), l.fresh(ctx)); err != nil {
		l.fail("prepare", err)
		close(done)
		return done
	}
	var all sync.WaitGroup
	for _, j := range l.jobs() {
		all.Go(func() { l.repeat(ctx, j) })
	}
	go func() { all.Wait(); close(done) }()
	return done
}

func (l *load) prepare(ctx context.Context) error {
	if err := l.admin.login(ctx); err != nil {
		return err
	}
	for _, name := range []string{"anna", "bernd", "leaver"} {
		id, err := l.admin.create(ctx, name)
		if err != nil {
			return err
		}
		l.leaver = id // the last one
		l.members = append(l.members, &visitor{base: l.PublicURL, name: name, password: memberPassword})
	}
	return errors.Join(l.members[0].login(ctx), l.members[1].login(ctx))
}

// repeat does a job until ctx ends. What is under way then is finished.
func (l *load) repeat(ctx context.Context, j job) {
	tick := time.NewTicker(j.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.once(context.WithoutCancel(ctx), j)
		}
	}
}

func (l *load) once(ctx context.Context, j job) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := j.do(ctx); err != nil {
		l.fail(j.name, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[j.name]++
}

func (l *load) fail(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[name]++
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, fmt.Sprintf("%s %s: %v", time.Now().UTC().Format(time.TimeOnly), name, err))
	}
}

func (l *load) me(ctx context.Context) error { return l.members[0].want(ctx, 200, "GET", "/me", "") }

func (l *load) anonymous(ctx context.Context) error {
	return (&visitor{base: l.PublicURL}).want(ctx, 401, "GET", "/me", "")
}

func (l *load) list(ctx context.Context) error { return l.admin.want(ctx, 200, "GET", "/users", "") }

func (l *load) guard(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addresses.Auth+"/internal/forward-auth", nil)
	if err != nil {
		return err
	}
	request.Header.Set("X-Forwarded-Method", http.MethodGet)
	request.Header.Set("X-Forwarded-Uri", "/api/v1/shopping")
	return l.members[1].send(request, 200, nil)
}

func (l *load) visit(ctx context.Context) error {
	v := &visitor{base: l.PublicURL, name: "anna", password: memberPassword}
	return errors.Join(v.login(ctx), v.want(ctx, 200, "GET", "/me", ""), v.want(ctx, 200, "POST", "/logout", ""), v.want(ctx, 401, "GET", "/me", ""))
}

// leave logs in without ever coming back. So that these sessions end within the
// run, and not after seven days, Redis is told to end them in a minute.
func (l *load) leave(ctx context.Context) error {
	v := &visitor{base: l.PublicURL, name: "leaver", password: memberPassword}
	if err := v.login(ctx); err != nil {
		return err
	}
	const age = `local now = redis.call('TIME')
local soon = now[1] * 1000 + 60000
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], soon, '+inf')) do
  redis.call('ZADD', KEYS[1], soon, id)
  redis.call('PEXPIREAT', ARGV[1] .. id, soon)
end
return redis.call('PEXPIREAT', KEYS[1], soon)`
	user := fmt.Sprintf("svc:{u%d}:", l.leaver)
	redis := redisclient.Open(l.Redis, redisWithin)
	defer func() { _ = redis.Close() }()
	aged, err := redis.Eval(ctx, age, []string{user + "sessions"}, user+"session:").Bool()
	if err == nil && !aged {
		err = errors.New("his sessions could not be aged")
	}
	return err
}

func (l *load) wrong(ctx context.Context) error {
	return (&visitor{base: l.PublicURL}).want(ctx, 401, "POST", "/login", `{"username":"bernd","password":"not his password"}`)
}

// member gives each member a name of his own, so that one who could not be
// deleted is one fault, and not the fault of everybody after him.
func (l *load) member(ctx context.Context) error {
	id, err := l.admin.create(ctx, fmt.Sprintf("guest-%d", l.guests.Add(1)))
	if err != nil {
		return err
	}
	return l.admin.want(ctx, 200, "DELETE", fmt.Sprintf("/users/%d", id), "")
}

func (l *load) unpaid(ctx context.Context) error {
	body := strings.NewReader(`{"transactionHash":"` + *l.tx.Load() + `"}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.PublicURL+"/v1/verify/chain-transaction", body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	return (&visitor{}).send(request, 402, nil)
}
