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
func (m *MemoryStore) Spend(_ context.Context, key, attempt string, limit int, length time.Duration) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purge()
	w, ok := m.live(key)
	if !ok {
		w = window{ends: m.now().Add(length), attempts: map[string]struct{}{}}
	}
	if _, again := w.attempts[attempt]; !again && len(w.attempts) >= limit {
		return m.count(w, false), nil
	}
	w.attempts[attempt] = struct{}{}
	m.windows[key] = w
	return m.count(w, true), nil
}

// Refund implements Store.
func (m *MemoryStore) Refund(_ context.Context, key, attempt string) (Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.live(key)
	if !ok {
		return Count{}, nil
	}
	delete(w.attempts, attempt)
	if len(w.attempts) == 0 {
		delete(m.windows, key)
	}
	return m.count(w, false), nil
}

func (m *MemoryStore) live(key string) (window, bool) {
	w, ok := m.windows[key]
	if !ok || !m.now().Before(w.ends) {
		return window{}, false
	}
	return w, true
}

func (m *MemoryStore) count(w window, taken bool) Count {
	return Count{Taken: taken, Attempts: len(w.attempts), Left: w.ends.Sub(m.now())}
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
