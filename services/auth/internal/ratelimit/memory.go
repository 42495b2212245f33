package ratelimit

import (
	"context"
	"sync"
	"time"
)

// MemoryStore is a Store that lives and dies with the process: the meaning of
// the interface in its shortest form, and the store of tests.
type MemoryStore struct {
	now func() time.Time

	mu      sync.Mutex
	windows map[string]window
	purgeAt int // number of windows at which those that are over are removed
}

type window struct {
	ends     time.Time
	attempts map[string]struct{}
}

// minPurge is the least number of windows that are looked through for old ones.
const minPurge = 1024

// NewMemoryStore returns an empty store that takes the time from now.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	return &MemoryStore{now: now, windows: map[string]window{}, purgeAt: minPurge}
}

// Spend implements Store.
func (m *MemoryStore) Spend(_ context.Context, attempt string, length time.Duration, keys ...Key) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purge()
	for _, key := range keys {
		w, _ := m.live(key.Name)
		if _, again := w.attempts[attempt]; !again && len(w.attempts) >= key.Limit {
			return m.count(false, keys), nil
		}
	}
	for _, key := range keys {
		w, ok := m.live(key.Name)
		if !ok {
			w = window{ends: m.now().Add(length), attempts: map[string]struct{}{}}
		}
		w.attempts[attempt] = struct{}{}
		m.windows[key.Name] = w
	}
	return m.count(true, keys), nil
}

// Refund implements Store.
func (m *MemoryStore) Refund(_ context.Context, attempt string, keys ...Key) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		w, ok := m.live(key.Name)
		if !ok {
			continue
		}
		delete(w.attempts, attempt)
		if len(w.attempts) == 0 {
			delete(m.windows, key.Name)
		}
	}
	return m.count(false, keys), nil
}

func (m *MemoryStore) live(key string) (window, bool) {
	w, ok := m.windows[key]
	if !ok || !m.now().Before(w.ends) {
		return window{}, false
	}
	return w, true
}

func (m *MemoryStore) count(taken bool, keys []Key) Count {
	c := Count{Taken: taken}
	for _, key := range keys {
		w, _ := m.live(key.Name)
		c.Windows = append(c.Windows, Window{Attempts: len(w.attempts), Left: w.ends.Sub(m.now())})
	}
	return c
}

// purge removes windows that are over once their number has doubled.
func (m *MemoryStore) purge() {
	if len(m.windows) < m.purgeAt {
		return
	}
	for key := range m.windows {
		if _, ok := m.live(key); !ok {
			delete(m.windows, key)
		}
	}
	m.purgeAt = max(minPurge, 2*len(m.windows))
}
