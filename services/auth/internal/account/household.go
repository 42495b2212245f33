package account

import (
	"context"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// DefaultHouseholdName is the default of Options.HouseholdName.
const DefaultHouseholdName = "Zuhause"

// Household returns the household's settings; the name is never empty.
func (s *Service) Household(ctx context.Context) (user.Household, error) {
	h, err := s.users.Household(ctx)
	if h.Name == "" {
		h.Name = s.household
	}
	return h, err
}
