package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// ErrHash says that no password could ever match the hash of an imported user.
var ErrHash = errors.New("password_hash is no bcrypt hash ($2a$, $2b$ or $2y$)")

// ErrHashCost says that comparing a password with the hash of an imported user
// would take too long.
var ErrHashCost = fmt.Errorf("password_hash has a bcrypt cost over %d: a login would take seconds, and every failed one as long", password.MaxImportCost)

// Fault is what is wrong with one imported record. It never quotes a field: a
// file whose columns are mixed up has hashes anywhere.
type Fault struct {
	// Where the record stands in its file.
	Where string
	Err   error
}

// String is a line for the operator.
func (f Fault) String() string { return fmt.Sprintf("%s: %v", f.Where, f.Err) }

// CheckImport judges records by the rules for new users, against one another
// and against the users that there are. It returns the users that Import takes,
// in the order of the file, or all faults.
func (s *Service) CheckImport(ctx context.Context, records []user.Record) ([]user.User, []Fault, error) {
	present, err := s.users.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	ids, names := map[int64]string{}, map[string]string{}
	for _, u := range present {
		ids[u.ID], names[strings.ToLower(u.Username)] = "a user that is there", "a user that is there"
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

// fromRecord gives the user of a record, and everything that is wrong with it. A
// field that is wrong is empty.
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
	var hashErr error
	if !password.Recognized(r.PasswordHash) {
		hashErr = ErrHash
	} else if password.TooCostly(r.PasswordHash) {
		hashErr = ErrHashCost
	}
	wrong := []error{idErr, nameErr, displayErr, hashErr, roleErr, user.CheckAvatarColor(color), createdErr}
	return u, slices.DeleteFunc(wrong, func(err error) bool { return err == nil })
}

// Import adds users that CheckImport accepted, all or none. user.ErrIDTaken and
// user.ErrUsernameTaken, when somebody was faster; ErrPending.
func (s *Service) Import(ctx context.Context, users []user.User) error {
	revocations, err := s.users.Import(ctx, users)
	if err != nil {
		return err
	}
	for _, r := range revocations {
		if err := s.follow(ctx, r); err != nil {
			return err // Replay does it and the others
		}
	}
	return nil
}
