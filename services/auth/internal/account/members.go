package account

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Profile is what users change of themselves; nil leaves a field as it is.
type Profile struct{ DisplayName, AvatarColor *string }

// MemberChange is what admins change of a user; nil leaves a field as it is.
type MemberChange struct {
	DisplayName, AvatarColor, Role *string
	Groups                         *[]string // slugs of all their groups
	// Joins are the slugs of groups that they join (true) or leave (false); one to leave may
	// be gone.
	Joins map[string]bool
}

// UpdateProfile changes the profile of a session's user and returns the user. The
// sentinels of user for its fields; user.ErrNotFound.
func (s *Service) UpdateProfile(ctx context.Context, of session.Session, p Profile) (user.User, error) {
	return s.changeUser(ctx, of.UserID, of.UserID, MemberChange{DisplayName: p.DisplayName, AvatarColor: p.AvatarColor})
}

// UpdateMember changes a user on behalf of an admin and returns the user. Live sessions
// follow at once. The sentinels of user for its fields; user.ErrNotFound,
// user.ErrNotAdmin, user.ErrLastAdmin; application.ErrGroupNotFound.
func (s *Service) UpdateMember(ctx context.Context, by, id int64, c MemberChange) (user.User, error) {
	return s.changeUser(ctx, by, id, c)
}

func (s *Service) changeUser(ctx context.Context, by, id int64, c MemberChange) (user.User, error) {
	change := user.Change{Groups: c.Groups, Joins: c.Joins}
	if c.DisplayName != nil {
		name, err := user.CleanDisplayName(*c.DisplayName)
		if err != nil {
			return user.User{}, err
		}
		change.DisplayName = &name
	}
	if c.AvatarColor != nil {
		if err := user.CheckAvatarColor(*c.AvatarColor); err != nil {
			return user.User{}, err
		}
		change.AvatarColor = c.AvatarColor
	}
	if c.Role != nil {
		role, err := user.ParseRole(*c.Role)
		if err != nil {
			return user.User{}, err
		}
		change.Role = &role
	}
	if err := s.users.Change(ctx, id, change, by); err != nil {
		return user.User{}, err
	}
	return s.users.ByID(ctx, id)
}

// Member returns a user as admins see them. user.ErrNotFound.
func (s *Service) Member(ctx context.Context, id int64) (user.Details, error) {
	return s.users.Member(ctx, id)
}

// Members returns all users as admins see them, by display name in German collation.
func (s *Service) Members(ctx context.Context) ([]user.Details, error) {
	members, err := s.users.Members(ctx)
	if err != nil {
		return nil, err
	}
	users, place := make([]user.User, len(members)), make(map[int64]int, len(members))
	for i, m := range members {
		users[i] = m.User
	}
	user.Sort(users)
	for i, u := range users {
		place[u.ID] = i
	}
	slices.SortFunc(members, func(a, b user.Details) int { return place[a.ID] - place[b.ID] })
	return members, nil
}

// Household returns the household's settings; the name is never empty.
func (s *Service) Household(ctx context.Context) (user.Household, error) {
	h, err := s.users.Household(ctx)
	if h.Name == "" {
		h.Name = s.household
	}
	return h, err
}

// AuditPage is how many entries AuditLog returns unless asked for fewer or more, and
// MaxAuditPage how many it returns at most.
const (
	AuditPage    = 50
	MaxAuditPage = 200
)

// AuditLog returns entries, newest first, and the cursor of the older ones: the Before of
// the next query, or 0 when there are none.
func (s *Service) AuditLog(ctx context.Context, q audit.Query) (entries []audit.Entry, next int64, err error) {
	if q.Limit <= 0 {
		q.Limit = AuditPage
	}
	limit := min(q.Limit, MaxAuditPage)
	q.Limit = limit + 1
	if entries, err = s.auditing.Entries(ctx, q); err != nil {
		return nil, 0, err
	}
	if len(entries) > limit {
		entries = entries[:limit]
		next = entries[limit-1].ID
	}
	return entries, next, nil
}

// MaxAuditFile is how many entries WriteAudit writes at most.
const MaxAuditFile = 20_000

// WriteAudit writes the newest entries of a query as CSV; its Limit is not used.
func (s *Service) WriteAudit(ctx context.Context, to io.Writer, q audit.Query) error {
	file, err := audit.NewCSV(to)
	if err != nil {
		return err
	}
	for written := 0; written < MaxAuditFile; written += MaxAuditPage {
		q.Limit = MaxAuditPage
		entries, next, err := s.AuditLog(ctx, q)
		if err != nil {
			return err
		}
		if err := file.Write(entries); err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		q.Before = next
	}
	return nil
}

// noticed are the events that are shown to the user whom they concern.
var noticed = []string{
	"device_new", "recovery_used", "second_factor_on", "second_factor_off", "second_factor_reset", "second_factor_guessed", "passkey_added", "passkey_removed",
	"passkey_clone", "token_made", "password_reset", "password_changed", "reset_made", "reset_used", "role_changed",
}

// Notices returns what a session's user should know and has not marked as read, newest
// first.
func (s *Service) Notices(ctx context.Context, of session.Session) ([]audit.Entry, error) {
	return s.auditing.Notices(ctx, of.UserID, noticed)
}

// NoticesSeen marks the notices of a session's user as read, up to and including an
// instant: the newest one's that was shown. Those to come are not read, whatever the
// client says: they would hide what somebody does with a stolen session.
func (s *Service) NoticesSeen(ctx context.Context, of session.Session, upTo time.Time) error {
	if now := s.now(); upTo.After(now) {
		upTo = now
	}
	err := s.auditing.NoticesSeen(ctx, of.UserID, upTo)
	if errors.Is(err, user.ErrNotFound) {
		return session.ErrNotFound
	}
	return err
}
