package edge

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"
)

// knownFor is the least time for which users are known, and maxKnownUsers how many become known in it.
const (
	knownFor      = time.Minute
	maxKnownUsers = 1 << 16
)

// users are those that a service named a moment ago, by what they logged in with.
type users struct {
	seed maphash.Seed

	mu sync.RWMutex
	// now and before are of this and the last knownFor, since when now is.
	now, before map[userKey]struct{}
	since       time.Time
}

// userKey stands for what a request was sent with. Who does not know that cannot choose one.
type userKey uint64

// credentials are the lines of headers by which a service knows users.
type credentials struct {
	// sent are the lines of Cookie that the client sent, token those of AppToken and
	// authorization those of Authorization.
	sent, token, authorization []string
}

// key returns that of a request, and 0 when it has neither a cookie that is named nor an app token.
func (u *users) key(named names, c credentials) userKey {
	var h maphash.Hash
	h.SetSeed(u.seed)
	found := false
	add := func(text string) {
		found = true
		_, _ = h.WriteString(text) // returns no error
		_ = h.WriteByte(0)
	}
	for _, line := range c.sent {
		for cookie := range strings.SplitSeq(line, ";") {
			cookie = strings.TrimSpace(cookie)
			if name, _, _ := strings.Cut(cookie, "="); named.has(name) {
				add(cookie)
			}
		}
	}
	for _, line := range c.token {
		add(line)
	}
	if slices.ContainsFunc(c.authorization, hasAppToken) {
		for _, line := range c.authorization {
			add(line)
		}
	}
	if !found {
		return 0
	}
	return userKey(h.Sum64())
}

// has reports whether a user is known.
func (u *users) has(key userKey) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	past := time.Since(u.since)
	if _, found := u.now[key]; found {
		return past < 2*knownFor
	}
	_, found := u.before[key]
	return found && past < knownFor
}

// add makes a user known.
func (u *users) add(key userKey) {
	u.mu.RLock()
	_, found := u.now[key]
	found = found && time.Since(u.since) < knownFor
	u.mu.RUnlock()
	if found {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if past := time.Since(u.since); past >= knownFor {
		u.before = u.now
		if past >= 2*knownFor {
			u.before = nil
		}
		u.now, u.since = map[userKey]struct{}{}, time.Now()
	}
	if len(u.now) < maxKnownUsers {
		u.now[key] = struct{}{}
	}
}
