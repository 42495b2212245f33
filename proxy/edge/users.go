package edge

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"
)

// knownFor is the least time for which users are known, and maxKnownUsers how many at most become known in it.
const (
	knownFor      = time.Minute
	maxKnownUsers = 1 << 16
)

// users keeps the keys of the credentials for which a service has lately named a user.
type users struct {
	seed maphash.Seed

	mu sync.RWMutex
	// now has the users who became known at since or later, and before those whom now had until since.
	now, before map[userKey]struct{}
	since       time.Time
}

// userKey is a hash of a request's credentials. A client cannot find credentials with the key of another's.
type userKey uint64

// credentials are the lines of headers by which a service knows users.
type credentials struct {
	// sent are the lines of Cookie that the client sent, token those of AppToken and
	// authorization those of Authorization.
	sent, token, authorization []string
}

// after returns c as lines of Set-Cookie change its named cookies for the client's next request.
func (c credentials) after(lines []string, named names) credentials {
	for _, line := range lines {
		cookie, _, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(cookie, "=")
		if !named.has(name) {
			continue
		}
		c.sent = withoutCookies(c.sent, names{name})
		if value != "" {
			c.sent = append(c.sent, cookie)
		}
	}
	return c
}

// key returns the key of a request's credentials, and 0 when it has neither a cookie that is named nor an app token.
// The order of cookies does not count: a browser keeps it when one is renewed, others may not.
func (u *users) key(named names, c credentials) (key userKey) {
	add := func(text string) { key += userKey(maphash.String(u.seed, text)) }
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
	return key
}

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

// add makes a user known, unless the key is 0 or maxKnownUsers became known already.
func (u *users) add(key userKey) {
	if key == 0 {
		return
	}
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
