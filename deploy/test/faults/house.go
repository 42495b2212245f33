package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/redisclient"
)

// The passwords of everybody in the household, before and after a change.
const (
	oldPassword = "as it was before"
	newPassword = "as it is from now on"
)

// house is a household whose members come, go, and are deleted.
type house struct {
	*journal
	door

	redis         string
	adminPassword string
	admin, second *session // two administrators; the second one only for a duel
	leaving       *person  // is deleted
	changing      *person  // changes his password
	going         *person  // logs out
	keeper        *session // the one he changes it in
	fading        *person  // is forgotten by Redis
	faded         *session // the one that is
	plan          []act
	streams       []*stream
}

// act is something that a household does.
type act struct {
	name string
	do   func(context.Context, *rand.Rand)
}

func newHouse(j *journal, w *world) (*house, error) {
	password, err := w.AdminPassword()
	return &house{
		journal: j, adminPassword: password, redis: w.Redis,
		door: door{url: w.PublicURL, direct: "http://" + w.Addresses.Auth, client: &http.Client{Timeout: readyWithin}},
	}, err
}

// furnish makes the members, while nothing fails yet.
func (h *house) furnish(ctx context.Context, random *rand.Rand) error {
	defer func() { h.client = patient(nil) }()
	root := &person{name: layout.AdminName}
	if h.admin, _ = h.login(ctx, root, h.adminPassword, false); h.admin == nil {
		return errors.New("the administrator cannot log in")
	}
	acts := []act{{"deletion", h.deletion}, {"password change", h.passwordChange}, {"logout", h.logout}, {"expiry", h.expiry}, {"duel", h.duel}}
	random.Shuffle(len(acts), func(i, k int) { acts[i], acts[k] = acts[k], acts[i] })
	h.plan = acts[:1+random.IntN(3)]
	for _, a := range h.plan {
		h.note("the household plans: %s", a.name)
		if err := h.invite(ctx, a.name); err != nil {
			return err
		}
	}
	return nil
}

// invite makes who is needed for an act.
func (h *house) invite(ctx context.Context, name string) (err error) {
	switch name {
	case "deletion":
		if h.leaving, err = h.create(ctx, "leaving", "member"); err == nil {
			s, _ := h.login(ctx, h.leaving, oldPassword, true)
			h.listen(ctx, s)
		}
	case "password change":
		if h.changing, err = h.create(ctx, "changing", "member"); err == nil {
			s, _ := h.login(ctx, h.changing, oldPassword, true)
			h.listen(ctx, s)
			h.keeper, _ = h.login(ctx, h.changing, oldPassword, true)
		}
	case "logout":
		h.going, err = h.create(ctx, "going", "member")
	case "expiry":
		if h.fading, err = h.create(ctx, "fading", "member"); err == nil {
			h.faded, _ = h.login(ctx, h.fading, oldPassword, false)
			h.listen(ctx, h.faded)
		}
	case "duel":
		eva, err := h.create(ctx, "eva", "admin")
		if err != nil {
			return err
		}
		if h.admin.id, err = h.idOf(ctx, h.admin); err != nil {
			return err
		}
		if h.second, _ = h.login(ctx, eva, oldPassword, false); h.second == nil {
			return errors.New("the second administrator cannot log in")
		}
	}
	return err
}

func (h *house) create(ctx context.Context, name, role string) (*person, error) {
	r := h.ask(ctx, h.admin, http.MethodPost, "/users", map[string]string{"username": name, "display_name": name, "password": oldPassword, "role": role})
	var answer struct {
		User struct {
			ID int64 `json:"id"`
		} `json:"user"`
	}
	if err := json.Unmarshal(r.body, &answer); r.status != http.StatusCreated || err != nil {
		return nil, fmt.Errorf("create %s: %d %s: %w", name, r.status, r.body, err)
	}
	return &person{name: name, id: answer.User.ID}, nil
}

func (h *house) idOf(ctx context.Context, s *session) (int64, error) {
	var answer struct {
		User struct {
			ID int64 `json:"id"`
		} `json:"user"`
	}
	r := h.ask(ctx, s, http.MethodGet, "/me", nil)
	if err := json.Unmarshal(r.body, &answer); r.status != http.StatusOK || err != nil {
		return 0, fmt.Errorf("who am I: %d %s: %w", r.status, r.body, err)
	}
	return answer.User.ID, nil
}

// live lets everything in the plan happen at once.
func (h *house) live(ctx context.Context, random *rand.Rand) {
	var all sync.WaitGroup
	for _, a := range h.plan {
		own := rand.New(rand.NewPCG(random.Uint64(), 2)) //nolint:gosec // not a secret
		wait := time.Duration(own.IntN(800)) * time.Millisecond
		all.Go(func() { pause(ctx, wait); a.do(ctx, own) })
	}
	all.Go(func() { h.watch(ctx) })
	all.Wait()
}

// logins logs a person in a few times at once, as someone does who is about to
// be stopped.
func (h *house) logins(ctx context.Context, p *person, n int) *sync.WaitGroup {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { h.login(ctx, p, oldPassword, true) })
	}
	return &all
}

// deletion deletes a member while he logs in.
func (h *house) deletion(ctx context.Context, random *rand.Rand) {
	logins := h.logins(ctx, h.leaving, 1+random.IntN(2))
	pause(ctx, time.Duration(random.IntN(400))*time.Millisecond)
	h.remove(ctx, h.admin, h.leaving)
	logins.Wait()
}

// remove deletes a person, and notes it when it is confirmed.
func (h *house) remove(ctx context.Context, by *session, p *person) int {
	r := h.ask(ctx, by, http.MethodDelete, fmt.Sprintf("/users/%d", p.id), nil)
	h.note("delete %s: %d", p.name, r.status)
	if r.status == http.StatusOK {
		p.gone.Store(true)
		h.count("deletions", 1)
	}
	return r.status
}

// passwordChange changes a password while the old one is used.
func (h *house) passwordChange(ctx context.Context, random *rand.Rand) {
	if h.keeper == nil {
		return
	}
	h.keeper.keeper = true
	logins := h.logins(ctx, h.changing, 1+random.IntN(2))
	pause(ctx, time.Duration(random.IntN(400))*time.Millisecond)
	r := h.ask(ctx, h.keeper, http.MethodPatch, "/me/password", map[string]string{"current_password": oldPassword, "new_password": newPassword})
	h.note("change a password: %d", r.status)
	if r.status == http.StatusOK {
		h.changing.changed.Store(true)
	}
	logins.Wait()
}

// logout logs out, again and again until it is known that it worked.
func (h *house) logout(ctx context.Context, _ *rand.Rand) {
	for ctx.Err() == nil {
		s, _ := h.login(ctx, h.going, oldPassword, false)
		if s == nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		h.listen(ctx, s)
		r := h.ask(ctx, s, http.MethodPost, "/logout", nil)
		h.note("log out: %d", r.status)
		if r.status == http.StatusOK {
			s.ended.Store(true)
			h.count("logouts", 1)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// expiry lets a session come to its end in Redis, past every fault.
func (h *house) expiry(ctx context.Context, _ *rand.Rand) {
	s := h.faded
	if s == nil {
		return
	}
	redis := redisclient.Open(h.redis, time.Second)
	defer func() { _ = redis.Close() }()
	keys, err := redis.Keys(ctx, fmt.Sprintf("svc:{u%d}:session:*", s.id)).Result()
	if err != nil || len(keys) == 0 {
		return // Redis is away
	}
	for _, key := range keys {
		if set, err := redis.PExpire(ctx, key, time.Millisecond).Result(); err != nil || !set {
			return
		}
	}
	pause(ctx, 5*time.Millisecond)
	s.ended.Store(true)
	h.count("expiries", 1)
	h.note("the sessions of %s expired", s.name)
}

// duel lets two administrators delete each other.
func (h *house) duel(ctx context.Context, _ *rand.Rand) {
	var both sync.WaitGroup
	both.Go(func() { h.remove(ctx, h.admin, h.second.person) })
	both.Go(func() { h.remove(ctx, h.second, h.admin.person) })
	both.Wait()
	h.count("duels", 1)
}

// watch tries the sessions that are over, at both doors, until ctx ends.
func (h *house) watch(ctx context.Context) {
	for ctx.Err() == nil {
		h.tryAll(ctx)
		pause(ctx, 50*time.Millisecond)
	}
}

// tryAll tries every session that is over.
func (h *house) tryAll(ctx context.Context) {
	for _, s := range h.all() {
		why := s.over()
		if why == "" {
			continue
		}
		h.count("sessions tried after their end", 1)
		if r := h.ask(ctx, s, http.MethodGet, "/me", nil); r.status == http.StatusOK {
			h.violated("GET /me accepts a session of %s after %s", s.name, why)
		}
		if r := h.guard(ctx, s); r.status == http.StatusOK {
			h.violated("the guard accepts a session of %s after %s", s.name, why)
		}
	}
}
