package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"
)

// MemoryStore is a Store that lives and dies with the process: the meaning of
// the interface in its shortest form, and the store of tests.
type MemoryStore struct {
	now func() time.Time

	mu       sync.Mutex
	sessions map[int64]map[string]Info // by user, then key
	fences   map[int64]string
}

// NewMemoryStore returns an empty store that takes the time from now.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	return &MemoryStore{now: now, sessions: map[int64]map[string]Info{}, fences: map[int64]string{}}
}

// Fence implements Store.
func (m *MemoryStore) Fence(_ context.Context, userID int64) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fences[userID] == "" {
		m.fences[userID] = rand.Text()
	}
	return m.fences[userID], nil
}

// Create implements Store.
func (m *MemoryStore) Create(_ context.Context, s Session, fence string, lifetime time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if fence == "" || fence != m.fences[s.UserID] {
		return ErrFenced
	}
	if _, again := m.sessions[s.UserID][s.Key]; !again {
		m.makeRoom(s.UserID)
	}
	if m.sessions[s.UserID] == nil {
		m.sessions[s.UserID] = map[string]Info{}
	}
	m.sessions[s.UserID][s.Key] = Info{Session: s, ExpiresAt: m.now().Add(lifetime)}
	return nil
}

// makeRoom ends sessions of a user, the one that was used longest ago first,
// until there may be one more.
func (m *MemoryStore) makeRoom(userID int64) {
	for key := range m.sessions[userID] {
		if ref := (Ref{UserID: userID, Key: key}); m.expired(ref) {
			m.remove(ref)
		}
	}
	for len(m.sessions[userID]) >= MaxPerUser {
		oldest := slices.MinFunc(slices.Collect(maps.Values(m.sessions[userID])), func(a, b Info) int {
			return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.Key, b.Key))
		})
		m.remove(oldest.Ref)
	}
}

func (m *MemoryStore) expired(ref Ref) bool {
	_, err := m.live(ref)
	return err != nil
}

// live returns the session while it lives.
func (m *MemoryStore) live(ref Ref) (Info, error) {
	info, ok := m.sessions[ref.UserID][ref.Key]
	if !ok || !m.now().Before(info.ExpiresAt) {
		return Info{}, ErrNotFound
	}
	return info, nil
}

// Load implements Store.
func (m *MemoryStore) Load(_ context.Context, ref Ref, lifetime time.Duration) (Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, err := m.live(ref)
	if err != nil {
		return Session{}, err
	}
	if lifetime > 0 {
		info.ExpiresAt = m.now().Add(lifetime)
		m.sessions[ref.UserID][ref.Key] = info
	}
	return info.Session, nil
}

// AddCSRFToken implements Store.
func (m *MemoryStore) AddCSRFToken(_ context.Context, ref Ref, token string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, err := m.live(ref)
	if err != nil {
		return "", err
	}
	info.CSRFToken = cmp.Or(info.CSRFToken, token)
	m.sessions[ref.UserID][ref.Key] = info
	return info.CSRFToken, nil
}

// Delete implements Store.
func (m *MemoryStore) Delete(_ context.Context, ref Ref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(ref)
	return nil
}

func (m *MemoryStore) remove(ref Ref) {
	delete(m.sessions[ref.UserID], ref.Key)
	if len(m.sessions[ref.UserID]) == 0 {
		delete(m.sessions, ref.UserID)
	}
}

// Revoke implements Store.
func (m *MemoryStore) Revoke(_ context.Context, userID int64, keep string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.fences, userID)
	ended := 0
	for key := range m.sessions[userID] {
		if key == keep {
			continue
		}
		ref := Ref{UserID: userID, Key: key}
		if _, err := m.live(ref); err == nil {
			ended++
		}
		m.remove(ref)
	}
	return ended, nil
}

// SetRole implements Store.
func (m *MemoryStore) SetRole(_ context.Context, userID int64, role string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.fences, userID)
	for key, info := range m.sessions[userID] {
		info.Role = role
		m.sessions[userID][key] = info
	}
	return nil
}

// List implements Store.
func (m *MemoryStore) List(_ context.Context, userID int64) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var infos []Info
	for _, info := range m.sessions[userID] {
		if m.now().Before(info.ExpiresAt) {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return b.ExpiresAt.Compare(a.ExpiresAt) })
	return infos, nil
}

// Sweep implements Store.
func (m *MemoryStore) Sweep(context.Context) (Swept, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var swept Swept
	for userID, sessions := range m.sessions {
		for key, info := range sessions {
			if m.now().Before(info.ExpiresAt) {
				swept.Live++
				continue
			}
			m.remove(Ref{UserID: userID, Key: key})
			swept.Expired++
		}
	}
	return swept, nil
}
