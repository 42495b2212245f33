package people

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Fault is an error in one imported record. It never quotes a field: a file with
// mixed-up columns has hashes anywhere.
type Fault struct {
	Where string // place of the record in its file
	Err   error
}

// String returns a line for the operator.
func (f Fault) String() string { return fmt.Sprintf("%s: %v", f.Where, f.Err) }

// CheckImport checks records by the rules for new users, against one another and
// against the existing users. It returns the users for Import, in the order of the
// file, or all faults.
func (s *Service) CheckImport(ctx context.Context, records []user.Record) ([]user.User, []Fault, error) {
	present, err := s.users.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids, names := map[int64]string{}, map[string]string{}
	for _, u := range present {
		ids[u.ID], names[strings.ToLower(u.Username)] = "an existing user", "an existing user"
	}
	var users []user.User
	var faults []Fault
	for _, r := range records {
		u, wrong := fromRecord(r)
		if holder, taken := ids[u.ID]; taken && u.ID != 0 {
			wrong = append(wrong, fmt.Errorf("%w by %s", user.ErrIDTaken, holder))
		}
		if holder, taken := names[strings.ToLower(u.Username)]; taken && u.Username != "" {
			wrong = append(wrong, fmt.Errorf("%w by %s", user.ErrUsernameTaken, holder))
		}
		for _, err := range wrong {
			faults = append(faults, Fault{Where: r.Where, Err: err})
		}
		ids[u.ID] = cmp.Or(ids[u.ID], r.Where)
		names[strings.ToLower(u.Username)] = cmp.Or(names[strings.ToLower(u.Username)], r.Where)
		users = append(users, u)
	}
	if len(faults) > 0 {
		return nil, faults, nil
	}
	return users, nil, nil
}

// fromRecord returns the user of a record and all its errors. A wrong field has its zero value, but for the password
// hash and the colour.
func fromRecord(r user.Record) (user.User, []error) {
	id, idErr := user.ParseID(r.ID)
	nameErr := user.CheckUsername(r.Username)
	displayName, displayErr := user.CleanDisplayName(r.DisplayName)
	role, roleErr := user.ParseRole(cmp.Or(r.Role, string(user.Member)))
	color := cmp.Or(r.AvatarColor, user.DefaultAvatarColor)
	created, createdErr := user.ParseCreatedAt(r.CreatedAt)
	u := user.User{ID: id, CreatedAt: created, New: user.New{
		Username: r.Username, DisplayName: displayName, PasswordHash: r.PasswordHash, AvatarColor: color, Role: role,
	}}
	if nameErr != nil {
		u.Username = ""
	}
	wrong := []error{
		idErr, nameErr, displayErr, password.CheckImport(r.PasswordHash), roleErr, user.CheckAvatarColor(color),
		createdErr,
	}
	return u, slices.DeleteFunc(wrong, func(err error) bool { return err == nil })
}

// Import adds users that CheckImport accepted, all or none. user.ErrIDTaken and user.ErrUsernameTaken after a
// concurrent change, the latter also for a former name of a user who exists; account.ErrPending.
func (s *Service) Import(ctx context.Context, users []user.User) error {
	revocations, err := s.users.Import(ctx, users)
	if err != nil {
		return err
	}
	for _, r := range revocations {
		if _, err := s.accounts.Follow(ctx, r, nil); err != nil {
			return err // Replay carries out this one and the others
		}
	}
	return nil
}
