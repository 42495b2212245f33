package oidc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

func (c *Client) clean() {
	c.Redirects, c.AfterLogout = cleaned(c.Redirects), cleaned(c.AfterLogout)
	c.LogoutURI = strings.TrimSpace(c.LogoutURI)
}

// cleaned returns addresses trimmed, sorted, each once, and without empty ones.
func cleaned(addresses []string) []string {
	var clean []string
	for _, a := range addresses {
		if a = strings.TrimSpace(a); a != "" {
			clean = append(clean, a)
		}
	}
	slices.Sort(clean)
	return slices.Compact(clean)
}

// Clients returns the clients as stored now, sorted by slug.
func (s *Service) Clients(ctx context.Context) ([]Client, error) { return s.o.Clients.Clients(ctx) }

// Client returns the client of an application as stored now. ErrNoClient.
func (s *Service) Client(ctx context.Context, slug string) (Client, error) {
	clients, err := s.o.Clients.Clients(ctx)
	if err != nil {
		return Client{}, err
	}
	i := slices.IndexFunc(clients, func(c Client) bool { return c.Slug == slug })
	if i < 0 {
		return Client{}, ErrNoClient
	}
	return clients[i], nil
}

// Create makes the application with the slug c.Slug a client and returns its secret, which is shown this once; "" for
// a public client. ID is by default the slug, Alg RS256, PKCE Auto and Groups GroupsAsked. Errors of Off, of
// Client.Check and of Clients.CreateClient.
func (s *Service) Create(ctx context.Context, by session.Session, c Client) (secret string, err error) {
	if err := s.Off(ctx); err != nil {
		return "", err
	}
	c.ID, c.Alg, c.PKCE = cmp.Or(c.ID, c.Slug), cmp.Or(c.Alg, RS256), cmp.Or(c.PKCE, Auto)
	c.Groups = cmp.Or(c.Groups, GroupsAsked)
	c.clean()
	if err := c.Check(); err != nil {
		return "", err
	}
	c.Secrets = nil
	if !c.Public {
		var kept Secret
		secret, kept = NewSecret()
		c.Secrets = []Secret{kept}
	}
	defer s.snapshot.Outdate()
	return secret, s.o.Clients.CreateClient(ctx, c, s.o.Issuer, by)
}

// Change stores what change makes of the client of an application. Errors of change, of Client.Check and of
// Clients.ChangeClient.
func (s *Service) Change(ctx context.Context, by session.Session, slug string, change func(*Client) error) error {
	defer s.snapshot.Outdate()
	return s.o.Clients.ChangeClient(ctx, slug, func(c *Client) error {
		if err := change(c); err != nil {
			return err
		}
		c.clean()
		return c.Check()
	}, by)
}

// Remove deletes the client of an application and ends its grants, on behalf of an admin or user.Operator. ErrNoClient,
// user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) Remove(ctx context.Context, by session.Session, slug string) error {
	defer s.snapshot.Outdate()
	return s.o.Clients.RemoveClient(ctx, slug, by)
}

// AddSecret adds a secret to a client and returns it; it is shown this once. ErrNoClient, ErrManySecret, ErrPublic,
// user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) AddSecret(ctx context.Context, by session.Session, slug string) (string, error) {
	defer s.snapshot.Outdate()
	text, secret := NewSecret()
	return text, s.o.Clients.AddSecret(ctx, slug, secret, by)
}

// RemoveSecret removes a secret of a client. ErrNoClient, ErrNoSecret, user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) RemoveSecret(ctx context.Context, by session.Session, slug string, id int64) error {
	defer s.snapshot.Outdate()
	return s.o.Clients.RemoveSecret(ctx, slug, id, by)
}

// Refusals returns the last refusals of a client's application, newest first.
func (s *Service) Refusals(ctx context.Context, c Client) ([]Refusal, error) {
	return s.o.ShortLived.Refusals(ctx, c.ApplicationID)
}

// Unfinished reports whether more than a minute ago a user was led back to the application, and it has not asked for
// tokens since: it probably does not reach us. This is forgotten after an hour.
func (s *Service) Unfinished(ctx context.Context, c Client) (bool, error) {
	since, err := s.o.ShortLived.Waiting(ctx, c.ApplicationID)
	return !since.IsZero() && s.o.Now().Sub(since) > time.Minute, err
}

// Connections returns at most 1000 live grants of a user at an application, newest first. 0 stands for all users, or
// all applications.
func (s *Service) Connections(ctx context.Context, userID, applicationID int64) ([]Connection, error) {
	return s.o.Grants.Connections(ctx, userID, applicationID)
}

// ConnectionsOf is Connections by username; "" means all users. user.ErrNotFound.
func (s *Service) ConnectionsOf(ctx context.Context, username string) ([]Connection, error) {
	if username == "" {
		return s.Connections(ctx, 0, 0)
	}
	u, err := s.o.Users.ByUsername(ctx, username)
	if err != nil {
		return nil, err
	}
	return s.Connections(ctx, u.ID, 0)
}

// Disconnect ends a grant at the wish of its user, an admin or user.Operator. ErrNoConnection.
func (s *Service) Disconnect(ctx context.Context, by int64, id string) error {
	return s.o.Grants.EndConnection(ctx, id, by)
}

// Sweep does what Grants.SweepGrants and KeepKeys do.
func (s *Service) Sweep(ctx context.Context) error {
	return errors.Join(s.o.Grants.SweepGrants(ctx), s.KeepKeys(ctx))
}
