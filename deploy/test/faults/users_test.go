package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/test/internal/client"
	"github.com/pforte/pforte/deploy/test/internal/fixture"
	"github.com/pforte/pforte/pkg/sqldb"
)

// The passwords of all users but the administrator, before and after a change.
const (
	oldPassword = "as it was before"
	newPassword = "as it is from now on"
)

// user is one user, and what was confirmed about them.
type user struct {
	name string
	id   int64
	// deleted: their deletion was confirmed. changed: the change of their password was.
	deleted, changed atomic.Bool
}

// session is one login that was answered.
type session struct {
	*client.Session
	user *user
	// old was created with the password before the change; changer is the one that
	// changed it.
	old, changer bool
	// ended: its logout, or its end in Redis, was confirmed.
	ended atomic.Bool
}

// over returns why a session must not be accepted any more, or nothing.
func (s *session) over() string {
	switch {
	case s.user.deleted.Load():
		return "the deletion of its user"
	case s.user.changed.Load() && s.old && !s.changer:
		return "the change of its user's password"
	case s.ended.Load():
		return "its end"
	}
	return ""
}

// users are users who log in and out, change passwords and are deleted, and all
// their sessions.
type users struct {
	*journal
	client.Auth
	guard, redis  string // addresses
	adminPassword string
	admin, second *session // two administrators; the second one only for their mutual deletion
	leaving       *user    // is deleted
	changing      *user    // changes their password
	plan          []act

	mu       sync.Mutex
	sessions []*session
	streams  []*stream
}

// act is what users do while things fail.
type act func(context.Context, *rand.Rand)

// newUsers creates the users of one to three acts, while nothing fails yet.
func newUsers(ctx context.Context, j *journal, w *world, random *rand.Rand) (*users, error) {
	password, err := w.AdminPassword()
	if err != nil {
		return nil, err
	}
	u := &users{
		journal: j, adminPassword: password, redis: w.Redis, guard: w.Addresses.Auth,
		Auth: client.Auth{URL: w.PublicURL, HTTP: &http.Client{Timeout: fixture.ReadyWithin}},
	}
	defer func() { u.HTTP = waiting(nil) }()
	var answer client.Answer
	if u.admin, answer = u.login(ctx, &user{name: layout.AdminName}, password, false); u.admin == nil {
		return nil, fmt.Errorf("the administrator cannot log in: %s", answer)
	}
	acts := []func(context.Context) (act, error){u.deletion, u.passwordChange, u.logout, u.expiry, u.mutualDeletion}
	random.Shuffle(len(acts), func(i, k int) { acts[i], acts[k] = acts[k], acts[i] })
	for _, prepare := range acts[:1+random.IntN(3)] {
		act, err := prepare(ctx)
		if err != nil {
			return nil, err
		}
		u.plan = append(u.plan, act)
	}
	return u, nil
}

// act does everything in the plan at once, and tries the sessions that are over
// until ctx ends.
func (u *users) act(ctx context.Context, random *rand.Rand) {
	var all sync.WaitGroup
	for _, act := range u.plan {
		own := source(random.Uint64(), 2)
		wait := time.Duration(own.IntN(800)) * time.Millisecond
		all.Go(func() { pause(ctx, wait); act(ctx, own) })
	}
	all.Go(func() {
		for ctx.Err() == nil {
			u.tryEnded(ctx)
			pause(ctx, 50*time.Millisecond)
		}
	})
	all.Wait()
}

// create creates a user and logs them in.
func (u *users) create(ctx context.Context, name, role string) (*user, *session, error) {
	id, err := u.CreateUser(ctx, u.admin.Session, name, role, oldPassword)
	if err != nil {
		return nil, nil, fmt.Errorf("create %s: %w", name, err)
	}
	created := &user{name: name, id: id}
	s, answer := u.login(ctx, created, oldPassword, true)
	if s == nil {
		return nil, nil, fmt.Errorf("log in %s: %s", name, answer)
	}
	return created, s, nil
}

// login logs a user in and notes the session, nil where there is none.
func (u *users) login(ctx context.Context, who *user, password string, old bool) (*session, client.Answer) {
	login, answer := u.Login(ctx, who.name, password)
	if login == nil {
		return nil, answer
	}
	s := &session{Session: login, user: who, old: old}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sessions = append(u.sessions, s)
	return s, answer
}

// all returns the sessions so far.
func (u *users) all() []*session {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.sessions)
}

// while does something while a user logs in once or twice.
func (u *users) while(ctx context.Context, who *user, random *rand.Rand, do func()) {
	var logins sync.WaitGroup
	for range 1 + random.IntN(2) {
		logins.Go(func() { u.login(ctx, who, oldPassword, true) })
	}
	pause(ctx, time.Duration(random.IntN(400))*time.Millisecond)
	do()
	logins.Wait()
}

// deletion deletes a user while they log in.
func (u *users) deletion(ctx context.Context) (act, error) {
	who, s, err := u.create(ctx, "leaving", "member")
	if err != nil {
		return nil, err
	}
	u.leaving = who
	u.openStream(ctx, s)
	return func(ctx context.Context, random *rand.Rand) {
		u.while(ctx, who, random, func() { u.remove(ctx, u.admin, who) })
	}, nil
}

// remove deletes a user, and notes it when it is confirmed.
func (u *users) remove(ctx context.Context, by *session, who *user) int {
	answer := u.DeleteUser(ctx, by.Session, who.id)
	u.note("delete %s: %s", who.name, answer)
	if answer.OK() {
		who.deleted.Store(true)
		u.count("deletions", 1)
	}
	return answer.Status
}

// passwordChange changes a password while the old one is used.
func (u *users) passwordChange(ctx context.Context) (act, error) {
	who, changer, err := u.create(ctx, "changing", "member")
	if err != nil {
		return nil, err
	}
	u.changing, changer.changer = who, true
	if s, _ := u.login(ctx, who, oldPassword, true); s != nil {
		u.openStream(ctx, s)
	}
	return func(ctx context.Context, random *rand.Rand) {
		u.while(ctx, who, random, func() {
			change := map[string]string{"current_password": oldPassword, "new_password": newPassword}
			answer := u.Call(ctx, changer.Session, http.MethodPatch, "/me/password", change)
			u.note("change a password: %s", answer)
			if answer.OK() {
				who.changed.Store(true)
			}
		})
	}, nil
}

// logout logs in and out until ctx ends.
func (u *users) logout(ctx context.Context) (act, error) {
	who, s, err := u.create(ctx, "going", "member")
	return func(ctx context.Context, _ *rand.Rand) {
		for ; ctx.Err() == nil; s, _ = u.login(ctx, who, oldPassword, false) {
			if s == nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			u.openStream(ctx, s)
			answer := u.Call(ctx, s.Session, http.MethodPost, "/logout", nil)
			u.note("log out: %s", answer)
			if answer.OK() {
				s.ended.Store(true)
				u.count("logouts", 1)
			}
			pause(ctx, 200*time.Millisecond)
		}
	}, err
}

// expiry ends a session in Redis, past every fault.
func (u *users) expiry(ctx context.Context) (act, error) {
	who, s, err := u.create(ctx, "expiring", "member")
	if err != nil {
		return nil, err
	}
	u.openStream(ctx, s)
	return func(ctx context.Context, _ *rand.Rand) {
		redis := newRedis(u.redis, time.Second)
		defer func() { _ = redis.Close() }()
		keys, err := redis.Keys(ctx, fmt.Sprintf("svc:{u%d}:session:*", who.id)).Result()
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
		u.count("expiries", 1)
		u.note("the sessions of %s expired", who.name)
	}, nil
}

// mutualDeletion has two administrators delete each other.
func (u *users) mutualDeletion(ctx context.Context) (_ act, err error) {
	if _, u.second, err = u.create(ctx, "eva", "admin"); err != nil {
		return nil, err
	}
	u.admin.user.id = u.admin.UserID
	return func(ctx context.Context, _ *rand.Rand) {
		var both sync.WaitGroup
		both.Go(func() { u.remove(ctx, u.admin, u.second.user) })
		both.Go(func() { u.remove(ctx, u.second, u.admin.user) })
		both.Wait()
		u.count("mutual deletions", 1)
	}, nil
}

// tryEnded tries every session that is over, at auth and at the guard.
func (u *users) tryEnded(ctx context.Context) {
	for _, s := range u.all() {
		why := s.over()
		if why == "" {
			continue
		}
		u.count("sessions tried after their end", 1)
		if u.Call(ctx, s.Session, http.MethodGet, "/me", nil).Status == http.StatusOK {
			u.violated("GET /me accepts a session of %s after %s", s.user.name, why)
		}
		if u.Guard(ctx, s.Session, u.guard).Status == http.StatusOK {
			u.violated("the guard accepts a session of %s after %s", s.user.name, why)
		}
	}
}

// judge finds out, when nothing fails any more, what became of the calls that had
// no answer, tries all sessions again, and counts the administrators.
func (u *users) judge(ctx context.Context, database string) {
	u.HTTP = &http.Client{Timeout: fixture.ReadyWithin}
	admins, err := query[string](ctx, database, "SELECT username FROM users WHERE role = 'admin' ORDER BY id")
	if err != nil || len(admins) == 0 {
		u.violated("there is no administrator left (%v)", err)
		return
	}
	admin := u.remainingAdmin(ctx, admins[0])
	if admin == nil {
		return
	}
	if u.leaving != nil && !u.exists(ctx, admin, u.leaving) {
		u.leaving.deleted.Store(true)
	}
	if u.second != nil {
		for _, s := range []*session{u.admin, u.second} {
			if !u.exists(ctx, admin, s.user) {
				s.user.deleted.Store(true)
			}
		}
	}
	if u.changing != nil {
		u.findPassword(ctx)
	}
	u.tryEnded(ctx)
	u.endAll(ctx, admin)
	u.tryEnded(ctx)
	u.streamsEnd(streamsEndWithin)
}

// remainingAdmin logs in the administrator who is left.
func (u *users) remainingAdmin(ctx context.Context, name string) (admin *session) {
	password := oldPassword
	if name == layout.AdminName {
		password = u.adminPassword
	}
	err := until(ctx, recovery, func(ctx context.Context) error {
		var answer client.Answer
		if admin, answer = u.login(ctx, &user{name: name}, password, false); admin == nil {
			return fmt.Errorf("login: %s", answer)
		}
		return nil
	})
	if err != nil {
		u.violated("the administrator who is left cannot log in: %v", err)
	}
	return admin
}

// exists reports whether auth lists a user.
func (u *users) exists(ctx context.Context, admin *session, who *user) bool {
	var list struct{ Data []struct{ ID int64 } }
	answer := u.Call(ctx, admin.Session, http.MethodGet, "/users", nil)
	if !answer.OK() {
		u.violated("an administrator cannot list the users: %s: %s", answer, answer.Body)
		return true
	}
	return json.Unmarshal(answer.Body, &list) == nil &&
		slices.ContainsFunc(list.Data, func(listed struct{ ID int64 }) bool { return listed.ID == who.id })
}

// findPassword finds out whether a change that had no answer has happened. It may
// still be under way, and happen between the two logins.
func (u *users) findPassword(ctx context.Context) {
	for range 2 {
		isNew := u.accepts(ctx, u.changing, newPassword, false)
		u.changing.changed.Store(isNew)
		isOld := u.accepts(ctx, u.changing, oldPassword, true)
		if isOld && isNew {
			u.violated("two passwords of %s are accepted", u.changing.name)
		}
		if isNew {
			u.count("password changes", 1)
		}
		if isOld || isNew {
			return
		}
	}
	u.violated("no password of %s is accepted", u.changing.name)
}

// accepts logs in until the answer is yes or no.
func (u *users) accepts(ctx context.Context, who *user, password string, old bool) bool {
	for {
		s, answer := u.login(ctx, who, password, old)
		if s != nil || answer.Status == http.StatusUnauthorized {
			return s != nil
		}
		if ctx.Err() != nil {
			u.violated("login does not answer when nothing fails any more: %s", answer)
			return false
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// endAll deletes the user who should have been, and logs out every other session:
// now this must work.
func (u *users) endAll(ctx context.Context, admin *session) {
	if u.leaving != nil && !u.leaving.deleted.Load() {
		if status := u.remove(ctx, admin, u.leaving); status != http.StatusOK {
			u.violated("a member cannot be deleted: %d", status)
		}
	}
	for _, s := range u.all() {
		if s.over() != "" || s == admin {
			continue
		}
		switch answer := u.Call(ctx, s.Session, http.MethodPost, "/logout", nil); answer.Status {
		case http.StatusOK, http.StatusUnauthorized:
			s.ended.Store(true)
		default:
			u.violated("a session cannot be logged out: %d %s", answer.Status, answer.Body)
		}
	}
}

// query reads the first column of the rows of a query from the file of a running
// service.
func query[T any](ctx context.Context, path, text string) (values []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	db, err := sqldb.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// newRedis returns a client of the Redis at addr, host:port, that tries once, and does
// not wait longer than within to connect, nor for the answer: a Redis that hangs
// is a fault that the caller goes on from.
func newRedis(addr string, within time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, DialTimeout: within, ReadTimeout: within, WriteTimeout: within, PoolTimeout: within,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
	})
}

// streamsEndWithin is how long a WebSocket may stay open after its session has
// ended and nothing fails any more.
const streamsEndWithin = 20 * time.Second

// newApp is an application behind the guard, which makes a WebSocket of a request and
// does not end it by itself.
func newApp(t *testing.T) *httptest.Server {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		if err == nil {
			_, _ = io.Copy(io.Discard, conn) // until either side ends it
		}
	}))
	t.Cleanup(app.Close)
	return app
}

// stream is a WebSocket that a session opened.
type stream struct {
	*session
	body io.ReadCloser
	done chan struct{} // closed when it has ended
}

// openStream opens a WebSocket to the application behind the guard with a session,
// and notes when it ends.
func (u *users) openStream(ctx context.Context, s *session) {
	body, err := u.upgrade(ctx, s)
	if err != nil {
		u.note("a WebSocket of %s is not opened: %v", s.user.name, err)
		return
	}
	u.count("WebSockets opened", 1)
	done := make(chan struct{})
	u.mu.Lock()
	u.streams = append(u.streams, &stream{session: s, body: body, done: done})
	u.mu.Unlock()
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, body)
		u.note("a WebSocket of %s has ended", s.user.name)
	}()
}

// upgrade returns a WebSocket once it is open, which does not end with ctx.
func (u *users) upgrade(ctx context.Context, s *session) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := client.NewRequest(ctx, http.MethodGet, u.URL+"/api/v1/shopping", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Cookie", s.Cookie)
	for name, value := range map[string]string{
		"Origin": u.URL, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		request.Header.Set(name, value)
	}
	response, err := (&http.Transport{}).RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, errors.Join(errors.New(response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// streamsEnd judges that the WebSockets of sessions that are over end soon, and
// closes the others.
func (u *users) streamsEnd(within time.Duration) {
	timeout := time.After(within)
	for _, s := range u.streams {
		if why := s.over(); why != "" {
			select {
			case <-s.done:
				u.count("WebSockets ended with their sessions", 1)
			case <-timeout:
				timeout = time.After(0) // for all that follow
				u.violated("a WebSocket of %s is still open after %s", s.user.name, why)
			}
		}
		_ = s.body.Close()
	}
}
