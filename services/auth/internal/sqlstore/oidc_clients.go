package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// Clients keeps the clients of the OpenID Connect provider.
type Clients struct{ db *database }

// clientColumns are what clientDest takes: all of a client but Redirects, AfterLogout and Secrets.
const clientColumns = `applications.id, applications.slug, applications.name, oidc_clients.client_id,
	oidc_clients.public, oidc_clients.alg, oidc_clients.pkce, oidc_clients.group_claim, oidc_clients.email,
	oidc_clients.offline, oidc_clients.ask, oidc_clients.device, oidc_clients.logout_uri, oidc_clients.created_at`

const clientTables = ` FROM oidc_clients JOIN applications ON applications.id = oidc_clients.application_id`

func clientDest(c *oidc.Client) []any {
	return []any{
		&c.ApplicationID, &c.Slug, &c.Name, &c.ID, &c.Public, &c.Alg, &c.PKCE, &c.Groups, &c.Email, &c.Offline, &c.Ask,
		&c.Device, &c.LogoutURI, (*instant)(&c.CreatedAt),
	}
}

func scanClient(row sqldb.Scanner) (c oidc.Client, err error) {
	err = row.Scan(clientDest(&c)...)
	return c, err
}

// clientURI is a redirect address of a client, or one that it may name after a logout.
type clientURI struct {
	application int64
	kind, uri   string
}

func scanURI(row sqldb.Scanner) (u clientURI, err error) {
	err = row.Scan(&u.application, &u.kind, &u.uri)
	return u, err
}

type clientSecret struct {
	application int64
	oidc.Secret
}

func scanSecret(row sqldb.Scanner) (s clientSecret, err error) {
	err = row.Scan(&s.application, &s.ID, &s.Hash, &s.Hint, (*instant)(&s.CreatedAt), (*instant)(&s.LastUsedAt))
	return s, err
}

// clientsIn returns the clients that the condition where selects, by slug, with their addresses and secrets.
func clientsIn(ctx context.Context, q querier, where string, args ...any) ([]oidc.Client, error) {
	clients, err := all(ctx, q, scanClient, `SELECT `+clientColumns+clientTables+where+` ORDER BY applications.slug`,
		args...)
	if err != nil || len(clients) == 0 {
		return nil, err
	}
	uris, err := all(ctx, q, scanURI, `SELECT application_id, kind, uri FROM oidc_uris
		ORDER BY application_id, kind, uri`)
	if err != nil {
		return nil, err
	}
	secrets, err := all(ctx, q, scanSecret, `SELECT application_id, id, hash, hint, created_at, last_used_at
		FROM oidc_secrets ORDER BY id`)
	if err != nil {
		return nil, err
	}
	for i := range clients {
		c := &clients[i]
		for _, u := range uris {
			switch {
			case u.application != c.ApplicationID:
			case u.kind == "redirect":
				c.Redirects = append(c.Redirects, u.uri)
			default:
				c.AfterLogout = append(c.AfterLogout, u.uri)
			}
		}
		for _, s := range secrets {
			if s.application == c.ApplicationID {
				c.Secrets = append(c.Secrets, s.Secret)
			}
		}
	}
	return clients, nil
}

// Clients implements oidc.Clients.
func (s *Clients) Clients(ctx context.Context) ([]oidc.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	clients, err := clientsIn(ctx, s.db, ``)
	if err != nil {
		return nil, fmt.Errorf("list clients: %w", err)
	}
	return clients, nil
}

// client returns the client of the application with a slug. oidc.ErrNoClient.
func (tx *transaction) client(ctx context.Context, slug string) (oidc.Client, error) {
	if !isText(slug) {
		return oidc.Client{}, oidc.ErrNoClient
	}
	clients, err := clientsIn(ctx, tx, ` WHERE applications.slug = ?`, slug)
	if err != nil {
		return oidc.Client{}, err
	}
	if len(clients) == 0 {
		return oidc.Client{}, oidc.ErrNoClient
	}
	return clients[0], nil
}

// clientOf returns the detail of an event about a client.
func clientOf(c oidc.Client) map[string]any {
	return map[string]any{
		"app": c.Slug, "client_id": c.ID, "public": c.Public, "alg": c.Alg, "pkce": c.PKCE, "groups": c.Groups,
		"email": c.Email, "offline": c.Offline, "ask": c.Ask, "device": c.Device, "logout_uri": c.LogoutURI,
		"redirects": c.Redirects, "after_logout": c.AfterLogout,
	}
}

// idIsFree returns oidc.ErrIDTaken when another client has the id.
func (tx *transaction) idIsFree(ctx context.Context, c oidc.Client) error {
	return refuse(ctx, tx, oidc.ErrIDTaken,
		`SELECT EXISTS (SELECT 1 FROM oidc_clients WHERE client_id = ? AND application_id <> ?)`, c.ID, c.ApplicationID)
}

// CreateClient implements oidc.Clients.
func (s *Clients) CreateClient(ctx context.Context, c oidc.Client, issuer string, by session.Session) error {
	return s.db.changePolicy(ctx, "create client", by, func(ctx context.Context, tx *transaction) error {
		_, err := tx.client(ctx, c.Slug)
		switch {
		case err == nil:
			return oidc.ErrIsClient
		case !errors.Is(err, oidc.ErrNoClient):
			return err
		}
		err = tx.row(ctx, `SELECT id FROM applications WHERE slug = ?`, c.Slug).Scan(&c.ApplicationID)
		if err != nil {
			return orNone(err, application.ErrNotFound)
		}
		if err := tx.idIsFree(ctx, c); err != nil {
			return err
		}
		now := s.db.now().Unix()
		err = tx.exec(ctx, `INSERT INTO oidc_clients (application_id, client_id, public, alg, pkce, group_claim, email,
			offline, ask, device, logout_uri, created_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			c.ApplicationID, c.ID, c.Public, string(c.Alg), string(c.PKCE), string(c.Groups), c.Email, c.Offline, c.Ask,
			c.Device, c.LogoutURI, now)
		if err != nil {
			return err
		}
		if err := tx.setAddresses(ctx, c); err != nil {
			return err
		}
		for _, secret := range c.Secrets {
			if err := tx.addSecret(ctx, c.ApplicationID, secret, now); err != nil {
				return err
			}
		}
		// The issuer of the first client; applications know users by it and their subject.
		err = tx.exec(ctx, `INSERT INTO household (key, value) VALUES ('oidc_issuer', ?) ON CONFLICT (key) DO NOTHING`,
			issuer)
		if err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{Name: "oidc_client_made", Detail: clientOf(c)})
	})
}

func (tx *transaction) setAddresses(ctx context.Context, c oidc.Client) error {
	if err := tx.exec(ctx, `DELETE FROM oidc_uris WHERE application_id = ?`, c.ApplicationID); err != nil {
		return err
	}
	for kind, uris := range map[string][]string{"redirect": c.Redirects, "after_logout": c.AfterLogout} {
		for _, uri := range uris {
			err := tx.exec(ctx, `INSERT INTO oidc_uris (application_id, kind, uri) VALUES (?, ?, ?)
				ON CONFLICT DO NOTHING`, c.ApplicationID, kind, uri)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *transaction) addSecret(ctx context.Context, application int64, s oidc.Secret, now int64) error {
	return tx.exec(ctx, `INSERT INTO oidc_secrets (application_id, hash, hint, created_at) VALUES (?, ?, ?, ?)`,
		application, s.Hash, s.Hint, now)
}

// ChangeClient implements oidc.Clients.
func (s *Clients) ChangeClient(
	ctx context.Context, slug string, change func(*oidc.Client) error, by session.Session,
) error {
	return s.db.changePolicy(ctx, "change client", by, func(ctx context.Context, tx *transaction) error {
		before, err := tx.client(ctx, slug)
		if err != nil {
			return err
		}
		c := before
		c.Redirects, c.AfterLogout = slices.Clone(before.Redirects), slices.Clone(before.AfterLogout)
		if err := change(&c); err != nil {
			return err
		}
		c.ApplicationID, c.Slug, c.Name, c.CreatedAt = before.ApplicationID, before.Slug, before.Name, before.CreatedAt
		if err := tx.idIsFree(ctx, c); err != nil {
			return err
		}
		err = tx.update(ctx, `UPDATE oidc_clients SET client_id = ?, public = ?, alg = ?, pkce = ?, group_claim = ?,
			email = ?, offline = ?, ask = ?, device = ?, logout_uri = ? WHERE application_id = ?`,
			c.ID, c.Public, string(c.Alg), string(c.PKCE), string(c.Groups), c.Email, c.Offline, c.Ask, c.Device,
			c.LogoutURI, c.ApplicationID)
		if err != nil {
			return err
		}
		if err := tx.setAddresses(ctx, c); err != nil {
			return err
		}
		if c.Public != before.Public || c.ID != before.ID { // grants were given to a client of the former kind or id
			if err := tx.exec(ctx, `DELETE FROM oidc_secrets WHERE application_id = ? AND ?`, c.ApplicationID,
				c.Public); err != nil {
				return err
			}
			if err := tx.endGrantsAt(ctx, c.ApplicationID, oidc.EndedChanged); err != nil {
				return err
			}
		}
		return tx.record(ctx, audit.Event{
			Name: "oidc_client_changed", Detail: map[string]any{"before": clientOf(before), "after": clientOf(c)},
		})
	})
}

// RemoveClient implements oidc.Clients.
func (s *Clients) RemoveClient(ctx context.Context, slug string, by session.Session) error {
	return s.db.changePolicy(ctx, "remove client", by, func(ctx context.Context, tx *transaction) error {
		c, err := tx.client(ctx, slug)
		if err != nil {
			return err
		}
		if err := tx.endGrantsAt(ctx, c.ApplicationID, oidc.EndedRemoved); err != nil {
			return err
		}
		if err := tx.update(ctx, `DELETE FROM oidc_clients WHERE application_id = ?`, c.ApplicationID); err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{Name: "oidc_client_removed", Detail: clientOf(c)})
	})
}

// AddSecret implements oidc.Clients.
func (s *Clients) AddSecret(ctx context.Context, slug string, secret oidc.Secret, by session.Session) error {
	return s.db.changePolicy(ctx, "add secret", by, func(ctx context.Context, tx *transaction) error {
		c, err := tx.client(ctx, slug)
		switch {
		case err != nil:
			return err
		case c.Public:
			return oidc.ErrPublic
		case len(c.Secrets) >= oidc.MaxSecrets:
			return oidc.ErrManySecret
		}
		if err := tx.addSecret(ctx, c.ApplicationID, secret, s.db.now().Unix()); err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{
			Name: "oidc_secret_made", Detail: map[string]any{"app": slug, "hint": secret.Hint},
		})
	})
}

// RemoveSecret implements oidc.Clients.
func (s *Clients) RemoveSecret(ctx context.Context, slug string, id int64, by session.Session) error {
	return s.db.changePolicy(ctx, "remove secret", by, func(ctx context.Context, tx *transaction) error {
		c, err := tx.client(ctx, slug)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(c.Secrets, func(s oidc.Secret) bool { return s.ID == id })
		if i < 0 {
			return oidc.ErrNoSecret
		}
		if err := tx.update(ctx, `DELETE FROM oidc_secrets WHERE id = ?`, id); err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{
			Name: "oidc_secret_removed", Detail: map[string]any{"app": slug, "hint": c.Secrets[i].Hint},
		})
	})
}

// SecretUsed implements oidc.Clients.
func (s *Clients) SecretUsed(ctx context.Context, id int64) error {
	now := s.db.now()
	return s.db.exec(ctx, "record use of a secret",
		`UPDATE oidc_secrets SET last_used_at = ? WHERE id = ? AND coalesce(last_used_at, 0) <= ?`,
		now.Unix(), id, now.Add(-time.Hour).Unix())
}

// RequirePKCE implements oidc.Clients.
func (s *Clients) RequirePKCE(ctx context.Context, applicationID int64) error {
	return s.db.exec(ctx, "require PKCE",
		`UPDATE oidc_clients SET pkce = 'required' WHERE application_id = ? AND pkce = 'auto'`, applicationID)
}

// Issuer implements oidc.Clients.
func (s *Clients) Issuer(ctx context.Context) (string, error) {
	issuer, err := read[string](ctx, s.db, "read issuer", `SELECT value FROM household WHERE key = 'oidc_issuer'`)
	return issuer, orNone(err, nil)
}

// SetIssuer implements oidc.Clients.
func (s *Clients) SetIssuer(ctx context.Context, issuer string, by session.Session) error {
	return s.db.changePolicy(ctx, "set issuer", by, func(ctx context.Context, tx *transaction) error {
		n, err := tx.changed(ctx, `UPDATE household SET value = ? WHERE key = 'oidc_issuer' AND value <> ?`, issuer,
			issuer)
		if err != nil || n == 0 { // there is none yet, or it is this one
			return err
		}
		if _, err := tx.endGrants(ctx, oidc.EndedChanged, `TRUE`); err != nil {
			return err
		}
		return tx.record(ctx, audit.Event{Name: "oidc_issuer_changed", Detail: map[string]any{"issuer": issuer}})
	})
}
