package oidc

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// Credentials are what a client authenticates by: the header Authorization, the form, or its id alone.
type Credentials struct {
	// ID and Secret are of the form; BasicID and BasicSecret of the header, if Basic is set.
	ID, Secret           string
	Basic                bool
	BasicID, BasicSecret string
	IP                   string
}

// Authenticate returns the client of credentials. The secret of a public one is not checked. ErrIDs, ErrClient and
// the errors of Off.
func (s *Service) Authenticate(ctx context.Context, by Credentials) (Client, error) {
	st, err := s.on(ctx)
	if err != nil {
		return Client{}, err
	}
	id, text := by.ID, by.Secret
	if by.Basic {
		if by.ID != "" && by.ID != by.BasicID || by.Secret != "" && by.Secret != by.BasicSecret {
			return Client{}, ErrIDs
		}
		id, text = by.BasicID, by.BasicSecret
	}
	c, known := st.clients[id]
	if !known {
		return Client{}, ErrClient
	}
	if c.Public {
		return c, nil
	}
	hash := []byte(secrets.Hash(text))
	for _, secret := range c.Secrets {
		if subtle.ConstantTimeCompare([]byte(secret.Hash), hash) == 1 {
			s.used(ctx, secret)
			return c, nil
		}
	}
	s.note(ctx, c, Refusal{Reason: ErrClient.Error(), IP: by.IP})
	return Client{}, ErrClient
}

// used records the use of a secret, at most once an hour.
func (s *Service) used(ctx context.Context, secret Secret) {
	if s.o.Now().Sub(secret.LastUsedAt) < time.Hour {
		return
	}
	s.later(ctx, "record use of a secret", func(ctx context.Context) error {
		return s.o.Clients.SecretUsed(ctx, secret.ID)
	})
}
