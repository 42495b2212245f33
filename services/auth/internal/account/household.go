package account

import (
	"cmp"
	"context"

	"github.com/pforte/pforte/services/auth/internal/user"
)

// DefaultHouseholdName is the default of Options.HouseholdName.
const DefaultHouseholdName = "Zuhause"

// Household returns the household's settings; the name is never empty, and Named reports whether it was chosen.
func (s *Service) Household(ctx context.Context) (user.Household, error) {
	h, err := s.users.Household(ctx)
	h.Named = h.Name != "" || s.household != DefaultHouseholdName
	h.Name = cmp.Or(h.Name, s.household)
	return h, err
}
