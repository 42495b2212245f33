package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// NewApplication are the fields of an application to create. An empty Name means the slug, an
// empty Rule application.Login, an empty Color user.DefaultAvatarColor.
type NewApplication struct {
	Slug, Name, Description, URL string
	Rule, Group                  string
	SecondFactor, Tokens         bool
	Color                        string
	Position                     int
}

// ApplicationChange are the fields of an application to change; nil leaves one as it is.
// Another rule than group drops the group.
type ApplicationChange struct {
	Name, Description, URL *string
	Rule, Group            *string
	SecondFactor, Tokens   *bool
	Color                  *string
	Position               *int
}

// Applications returns all applications, by position and name.
func (s *Service) Applications(ctx context.Context) ([]application.Application, error) {
	return s.o.Applications.Applications(ctx)
}

// Application returns an application as stored now. application.ErrNotFound.
func (s *Service) Application(ctx context.Context, slug string) (application.Application, error) {
	apps, err := s.o.Applications.Applications(ctx)
	if err != nil {
		return application.Application{}, err
	}
	at := slices.IndexFunc(apps, func(a application.Application) bool { return a.Slug == slug })
	if at < 0 {
		return application.Application{}, application.ErrNotFound
	}
	return apps[at], nil
}

// CreateApplication adds an application on behalf of an admin or user.Operator. application.ErrSlug, ErrName,
// ErrDescription, ErrURL, ErrRule, ErrPosition, ErrSlugTaken, ErrURLTaken, ErrGroupNotFound, ErrTooMany;
// user.ErrAvatarColor, user.ErrNotAdmin; session.ErrNotFound when the session has ended meanwhile.
func (s *Service) CreateApplication(ctx context.Context, by session.Session, n NewApplication) error {
	return s.CreateWith(ctx, by, n, RouteChange{}, application.Icon{})
}

// CreateWith is CreateApplication with a route, unless its Upstream is empty, and a picture, all in one transaction. It
// also returns application.ErrUpstream, ErrUpstreamBlocked, ErrUserHeader and ErrPin. An application that user.Operator
// creates is on the start page at once: who enters it by a command also writes the proxy's configuration.
func (s *Service) CreateWith(
	ctx context.Context, by session.Session, n NewApplication, route RouteChange, icon application.Icon,
) error {
	a := application.Application{
		Slug: n.Slug, Name: cmp.Or(n.Name, n.Slug), Description: n.Description, URL: n.URL,
		Rule: cmp.Or(application.Rule(n.Rule), application.Login), Group: n.Group,
		SecondFactor: n.SecondFactor, Tokens: n.Tokens,
		Color: cmp.Or(n.Color, user.DefaultAvatarColor), Position: n.Position,
		Reached: by.UserID == user.Operator, Icon: icon.Hash,
	}
	if err := s.checkApplication(&a); err != nil {
		return err
	}
	switch {
	case route.Upstream == "":
	case !s.routable(a):
		return application.ErrURL
	default:
		var err error
		if a.Route, err = s.checkRoute(ctx, route.route()); err != nil {
			return err
		}
	}
	defer s.snapshot.Outdate()
	return s.o.Applications.CreateApplication(ctx, a, icon, by)
}

// checkApplication brings the fields into their clean form, and returns the error of the first that is wrong.
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
	if a.URL, err = application.ParseURL(a.URL, s.o.PlainHTTP); err != nil {
		return err
	}
	if !slices.Contains([]application.Rule{application.Login, application.Admin, application.Group}, a.Rule) ||
		(a.Rule == application.Group) != (a.Group != "") {
		return application.ErrRule
	}
	if a.Position < 0 || a.Position > application.MaxPosition {
		return application.ErrPosition
	}
	return user.CheckAvatarColor(a.Color)
}

// ChangeApplication changes an application on behalf of an admin or user.Operator. application.ErrNotFound, ErrName,
// ErrDescription, ErrURL, also for one that a route cannot have, ErrRule, ErrPosition, ErrURLTaken, ErrGroupNotFound;
// user.ErrAvatarColor, user.ErrNotAdmin; session.ErrNotFound.
func (s *Service) ChangeApplication(ctx context.Context, by session.Session, slug string, c ApplicationChange) error {
	defer s.snapshot.Outdate()
	return s.o.Applications.ChangeApplication(ctx, slug, func(a *application.Application) error {
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
		if err := s.checkApplication(a); err != nil {
			return err
		}
		if c.URL != nil && !s.routable(*a) && a.Route.Upstream != "" {
			return application.ErrURL // proxies would leave out the route
		}
		return nil
	}, by)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// RemoveApplication removes an application on behalf of an admin or user.Operator.
// application.ErrNotFound, user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) RemoveApplication(ctx context.Context, by session.Session, slug string) error {
	defer s.snapshot.Outdate()
	return s.o.Applications.RemoveApplication(ctx, slug, by)
}

// AskForAccess records for the admins that a user asks for access to an application. The same
// question again on the same day, in UTC, is counted in one entry. application.ErrNotFound.
func (s *Service) AskForAccess(ctx context.Context, u user.User, slug string) error {
	app, err := s.Application(ctx, slug)
	if err != nil {
		return err
	}
	s.o.Audit.Record(ctx, audit.Event{
		Name: "access_asked", SubjectID: u.ID, SubjectName: u.Username, Detail: map[string]any{"app": app.Slug},
		Bucket: fmt.Sprintf("access_asked %d %d %s", s.o.Now().Truncate(24*time.Hour).Unix(), u.ID, app.Slug),
	})
	return nil
}

// Openable returns the applications whose rule admits a session's user, by position and
// name. user.ErrNotFound, session.ErrNotFound.
func (s *Service) Openable(ctx context.Context, of session.Session) ([]application.Application, error) {
	v, err := s.Visitor(ctx, of)
	if err != nil {
		return nil, err
	}
	apps, err := s.o.Applications.Applications(ctx)
	return slices.DeleteFunc(apps, func(a application.Application) bool {
		return !a.Permits(string(v.User.Role), v.Groups)
	}), err
}
