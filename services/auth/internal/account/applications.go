package account

import (
	"context"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Applications keeps applications and groups. Every method that changes something is one
// transaction, with its audit rows, on behalf of an admin (user.ErrNotAdmin) or
// user.Operator. What it changes holds from the next request on: no session holds a rule
// or a group.
type Applications interface {
	// Applications returns all, by position and name.
	Applications(ctx context.Context) ([]application.Application, error)
	// CreateApplication adds one. application.ErrSlugTaken, ErrURLTaken, ErrGroupNotFound,
	// ErrTooMany.
	CreateApplication(ctx context.Context, a application.Application, by int64) error
	// ChangeApplication stores what change makes of an application, which is called in
	// the transaction and possibly several times; its error is returned.
	// application.ErrNotFound, and as CreateApplication.
	ChangeApplication(ctx context.Context, slug string, change func(*application.Application) error, by int64) error
	// RemoveApplication removes one, from tokens too. application.ErrNotFound.
	RemoveApplication(ctx context.Context, slug string, by int64) error

	// Groups returns all, by slug.
	Groups(ctx context.Context) ([]application.UserGroup, error)
	// CreateGroup adds one with members. application.ErrSlugTaken, ErrTooMany;
	// user.ErrNotFound.
	CreateGroup(ctx context.Context, slug, name string, members []int64, by int64) error
	// ChangeGroup sets the name and members of one; nil leaves them as they are.
	// application.ErrGroupNotFound, user.ErrNotFound.
	ChangeGroup(ctx context.Context, slug string, name *string, members *[]int64, by int64) error
	// RemoveGroup removes one that no rule names, from open invites too. application.ErrGroupNotFound, ErrGroupUsed.
	RemoveGroup(ctx context.Context, slug string, by int64) error
	// ChangeMembers makes users members (true) or not (false), all of them or none.
	// application.ErrGroupNotFound, user.ErrNotFound.
	ChangeMembers(ctx context.Context, slug string, users map[int64]bool, by int64) error

	// Visitor returns a user and the slugs of their groups, sorted, in one read.
	// user.ErrNotFound.
	Visitor(ctx context.Context, id int64) (user.User, []string, error)
}

// NewApplication are the fields of an application; an empty Name is the slug, an empty
// Rule login, an empty Color the default.
type NewApplication struct {
	Slug, Name, Description, URL string
	Rule, Group                  string
	SecondFactor, Tokens         bool
	Color                        string
	Position                     int
}

// ApplicationChange is what admins change of an application; nil leaves a field as it is.
// Another rule than group drops the group.
type ApplicationChange struct {
	Name, Description, URL *string
	Rule, Group            *string
	SecondFactor, Tokens   *bool
	Color                  *string
	Position               *int
}

// Visitor is who comes with a request to an application, as stored now.
type Visitor struct {
	User   user.User
	Groups []string // slugs, sorted
}

// Applications returns all applications, by position and name.
func (s *Service) Applications(ctx context.Context) ([]application.Application, error) {
	return s.applications.Applications(ctx)
}

// CreateApplication adds an application on behalf of an admin or user.Operator. The
// sentinels of application; user.ErrAvatarColor, user.ErrNotAdmin.
func (s *Service) CreateApplication(ctx context.Context, by int64, n NewApplication) error {
	a := application.Application{
		Slug: n.Slug, Name: n.Name, Description: n.Description, URL: n.URL, Rule: application.Rule(n.Rule), Group: n.Group,
		SecondFactor: n.SecondFactor, Tokens: n.Tokens, Color: n.Color, Position: n.Position,
	}
	if a.Name == "" {
		a.Name = a.Slug
	}
	if a.Rule == "" {
		a.Rule = application.Login
	}
	if a.Color == "" {
		a.Color = user.DefaultAvatarColor
	}
	if err := s.checkApplication(&a); err != nil {
		return err
	}
	defer s.snapshot.outdate()
	return s.applications.CreateApplication(ctx, a, by)
}

// checkApplication returns the error of the first field that is wrong, and cleans the
// others.
func (s *Service) checkApplication(a *application.Application) (err error) {
	if err := application.CheckSlug(a.Slug); err != nil {
		return err
	}
	if a.Name, err = application.CleanName(a.Name); err != nil {
		return err
	}
	if a.Description, err = application.CleanDescription(a.Description); err != nil {
		return err
	}
	if a.URL, err = application.ParseURL(a.URL, s.plainHTTP); err != nil {
		return err
	}
	if !slices.Contains([]application.Rule{application.Login, application.Admin, application.Group}, a.Rule) || (a.Rule == application.Group) != (a.Group != "") {
		return application.ErrRule
	}
	if a.Position < 0 || a.Position > application.MaxPosition {
		return application.ErrPosition
	}
	return user.CheckAvatarColor(a.Color)
}

// ChangeApplication changes an application on behalf of an admin or user.Operator.
// application.ErrNotFound, and as CreateApplication.
func (s *Service) ChangeApplication(ctx context.Context, by int64, slug string, c ApplicationChange) error {
	defer s.snapshot.outdate()
	return s.applications.ChangeApplication(ctx, slug, func(a *application.Application) error {
		set(&a.Name, c.Name)
		set(&a.Description, c.Description)
		set(&a.URL, c.URL)
		set(&a.SecondFactor, c.SecondFactor)
		set(&a.Tokens, c.Tokens)
		set(&a.Color, c.Color)
		set(&a.Position, c.Position)
		if c.Rule != nil {
			a.Rule = application.Rule(*c.Rule)
			if a.Rule != application.Group {
				a.Group = ""
			}
		}
		set(&a.Group, c.Group)
		return s.checkApplication(a)
	}, by)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// RemoveApplication removes an application on behalf of an admin or user.Operator.
// application.ErrNotFound, user.ErrNotAdmin.
func (s *Service) RemoveApplication(ctx context.Context, by int64, slug string) error {
	defer s.snapshot.outdate()
	return s.applications.RemoveApplication(ctx, slug, by)
}

// Openable returns the applications whose rule admits a session's user, by position and
// name. user.ErrNotFound, session.ErrNotFound.
func (s *Service) Openable(ctx context.Context, of session.Session) ([]application.Application, error) {
	v, err := s.Visitor(ctx, of)
	if err != nil {
		return nil, err
	}
	apps, err := s.applications.Applications(ctx)
	return slices.DeleteFunc(apps, func(a application.Application) bool { return !a.Permits(string(v.User.Role), v.Groups) }), err
}

// Visitor is Holder with the user's groups, in one read: who leaves a group, is demoted
// or deleted is refused at the next request.
func (s *Service) Visitor(ctx context.Context, of session.Session) (Visitor, error) {
	u, groups, err := s.applications.Visitor(ctx, of.UserID)
	if err != nil {
		return Visitor{}, err
	}
	if !u.Admits(of.Stamp, of.Key) {
		return Visitor{}, session.ErrNotFound
	}
	return Visitor{User: u, Groups: groups}, nil
}

// Groups returns all groups, by slug.
func (s *Service) Groups(ctx context.Context) ([]application.UserGroup, error) {
	return s.applications.Groups(ctx)
}

// CreateGroup adds a group with members on behalf of an admin or user.Operator; an empty
// name is the slug. application.ErrSlug, ErrName, ErrSlugTaken, ErrTooMany;
// user.ErrNotFound, user.ErrNotAdmin.
func (s *Service) CreateGroup(ctx context.Context, by int64, slug, name string, members ...int64) error {
	if err := application.CheckGroupSlug(slug); err != nil {
		return err
	}
	if name == "" {
		name = slug
	}
	name, err := application.CleanName(name)
	if err != nil {
		return err
	}
	return s.applications.CreateGroup(ctx, slug, name, members, by)
}

// GroupChange is what admins change of a group; nil leaves a field as it is.
type GroupChange struct {
	Name    *string
	Members *[]int64 // ids of all members
}

// ChangeGroup changes a group on behalf of an admin or user.Operator.
// application.ErrGroupNotFound, ErrName; user.ErrNotFound, user.ErrNotAdmin.
func (s *Service) ChangeGroup(ctx context.Context, by int64, slug string, c GroupChange) error {
	if c.Name != nil {
		name, err := application.CleanName(*c.Name)
		if err != nil {
			return err
		}
		c.Name = &name
	}
	return s.applications.ChangeGroup(ctx, slug, c.Name, c.Members, by)
}

// RemoveGroup removes a group on behalf of an admin or user.Operator.
// application.ErrGroupNotFound, ErrGroupUsed; user.ErrNotAdmin.
func (s *Service) RemoveGroup(ctx context.Context, by int64, slug string) error {
	return s.applications.RemoveGroup(ctx, slug, by)
}

// ChangeMembers makes users members of a group (true) or not (false) on behalf of an admin
// or user.Operator, all of them or none. application.ErrGroupNotFound, user.ErrNotFound,
// user.ErrNotAdmin.
func (s *Service) ChangeMembers(ctx context.Context, by int64, slug string, users map[int64]bool) error {
	return s.applications.ChangeMembers(ctx, slug, users, by)
}

// SetMember is ChangeMembers for the operator, who names users by username.
func (s *Service) SetMember(ctx context.Context, slug, username string, member bool) error {
	u, err := s.users.ByUsername(ctx, username)
	if err != nil {
		return err
	}
	return s.ChangeMembers(ctx, user.Operator, slug, map[int64]bool{u.ID: member})
}
