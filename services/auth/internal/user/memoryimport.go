package user

import (
	"context"
	"fmt"
	"maps"
)

// Import implements Store.
func (s *MemoryStore) Import(_ context.Context, users []User) ([]Revocation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, last := maps.Clone(s.users), s.lastUser
	for _, u := range ByGivenID(users) {
		if _, err := s.add(u); err != nil {
			s.users, s.lastUser = before, last
			return nil, fmt.Errorf("%s: %w", u.Username, err)
		}
	}
	var revocations []Revocation
	for _, u := range users {
		if u.ID != 0 {
			revocations = append(revocations, s.record(Revocation{UserID: u.ID, Kind: RevokeSessions}))
		}
	}
	return revocations, nil
}
