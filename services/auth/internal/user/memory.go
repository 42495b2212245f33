package user

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// MemoryStore is a Store that lives and dies with the process: the meaning of
// the interface in its shortest form, and the store of tests.
type MemoryStore struct {
	now func() time.Time

	mu             sync.Mutex
	users          map[int64]User
	revocations    map[int64]Revocation
	lastUser       int64
	lastRevocation int64
}

// NewMemoryStore returns an empty store that takes the time from now.
func NewMemoryStore(now func() time.Time) *MemoryStore {
	return &MemoryStore{now: now, users: map[int64]User{}, revocations: map[int64]Revocation{}}
}

func (s *MemoryStore) seconds() time.Time { return s.now().UTC().Truncate(time.Second) }

// Create implements Store.
func (s *MemoryStore) Create(_ context.Context, n New, by int64) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mayAct(by) {
		return User{}, ErrNotAdmin
	}
	return s.create(n)
}

// CreateFirst implements Store.
func (s *MemoryStore) CreateFirst(_ context.Context, n New) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.users) > 0 {
		return User{}, ErrNotEmpty
	}
	return s.create(n)
}

func (s *MemoryStore) create(n New) (User, error) {
	return s.add(User{New: n})
}

// add gives what is missing of a user, and keeps him.
func (s *MemoryStore) add(u User) (User, error) {
	for _, other := range s.users {
		if strings.EqualFold(other.Username, u.Username) {
			return User{}, ErrUsernameTaken
		}
	}
	if _, taken := s.users[u.ID]; taken {
		return User{}, ErrIDTaken
	}
	if u.ID == 0 {
		u.ID = s.lastUser + 1
	}
	if u.CreatedAt.IsZero() {
		u.CreatedAt = s.now()
	}
	u.CreatedAt = u.CreatedAt.UTC().Truncate(time.Second)
	u.SessionStamp = NewSessionStamp()
	s.lastUser = max(s.lastUser, u.ID)
	s.users[u.ID] = u
	return u, nil
}

// ByID implements Store.
func (s *MemoryStore) ByID(_ context.Context, id int64) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(id)
}

func (s *MemoryStore) get(id int64) (User, error) {
	u, ok := s.users[id]
	if !ok {
		return User{}, ErrNotFound
	}
	return u, nil
}

// ByUsername implements Store.
func (s *MemoryStore) ByUsername(_ context.Context, username string) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.users {
		if u.Username == username {
			return u, nil
		}
	}
	return User{}, ErrNotFound
}

// List implements Store.
func (s *MemoryStore) List(context.Context) ([]User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.users), func(a, b User) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// SetPasswordHash implements Store.
func (s *MemoryStore) SetPasswordHash(_ context.Context, id int64, oldHash, newHash, keepSession string) (Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.swapHash(id, oldHash, newHash); err != nil {
		return Revocation{}, err
	}
	return s.endSessions(id, keepSession), nil
}

// ResetPassword implements Store.
func (s *MemoryStore) ResetPassword(_ context.Context, id int64, newHash string) (Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.get(id)
	if err != nil {
		return Revocation{}, err
	}
	u.PasswordHash = newHash
	s.users[id] = u
	return s.endSessions(id, ""), nil
}

// EndSessions implements Store.
func (s *MemoryStore) EndSessions(_ context.Context, id int64) (Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.get(id); err != nil {
		return Revocation{}, err
	}
	return s.endSessions(id, ""), nil
}

// endSessions gives the user a new stamp.
func (s *MemoryStore) endSessions(id int64, keep string) Revocation {
	u := s.users[id]
	u.SessionStamp, u.KeptSession = NewSessionStamp(), keep
	s.users[id] = u
	return s.record(Revocation{UserID: id, Kind: RevokeSessions, KeepSession: keep})
}

// Rehash implements Store.
func (s *MemoryStore) Rehash(_ context.Context, id int64, oldHash, newHash string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.swapHash(id, oldHash, newHash)
}

func (s *MemoryStore) swapHash(id int64, oldHash, newHash string) error {
	u, err := s.get(id)
	if err != nil {
		return err
	}
	if u.PasswordHash != oldHash {
		return ErrChanged
	}
	u.PasswordHash = newHash
	s.users[id] = u
	return nil
}

// SetRole implements Store.
func (s *MemoryStore) SetRole(_ context.Context, id int64, role Role) (Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.get(id)
	if err != nil {
		return Revocation{}, err
	}
	if u.Role == Admin && role != Admin && s.admins() == 1 {
		return Revocation{}, ErrLastAdmin
	}
	u.Role = role
	s.users[id] = u
	return s.record(Revocation{UserID: id, Kind: RefreshRole}), nil
}

// Delete implements Store.
func (s *MemoryStore) Delete(_ context.Context, id, by int64) (Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mayAct(by) {
		return Revocation{}, ErrNotAdmin
	}
	u, err := s.get(id)
	if err != nil {
		return Revocation{}, err
	}
	if u.Role == Admin && s.admins() == 1 {
		return Revocation{}, ErrLastAdmin
	}
	delete(s.users, id)
	return s.record(Revocation{UserID: id, Kind: RevokeSessions}), nil
}

func (s *MemoryStore) mayAct(by int64) bool {
	return by == Operator || s.users[by].Role == Admin
}

func (s *MemoryStore) admins() int {
	n := 0
	for _, u := range s.users {
		if u.Role == Admin {
			n++
		}
	}
	return n
}

func (s *MemoryStore) record(r Revocation) Revocation {
	s.lastRevocation++
	r.ID, r.RecordedAt = s.lastRevocation, s.seconds()
	s.revocations[r.ID] = r
	return r
}

// PendingRevocations implements Store.
func (s *MemoryStore) PendingRevocations(_ context.Context, before time.Time, after int64) ([]Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pending []Revocation
	for _, id := range slices.Sorted(maps.Keys(s.revocations)) {
		if r := s.revocations[id]; id > after && r.RecordedAt.Before(before) && len(pending) < MaxPending {
			pending = append(pending, r)
		}
	}
	return pending, nil
}

// RevocationDone implements Store.
func (s *MemoryStore) RevocationDone(_ context.Context, id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.revocations, id)
	return nil
}
