package once

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/services/auth/internal/newest"
	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// SecretLifetime is how long a secret can be shown.
const SecretLifetime = 5 * time.Minute

// ErrGone is returned for a secret that is unknown, was removed, is too old, or is another session's.
var ErrGone = errors.New("secret is no longer shown")

// Key seals a secret, or what a form led to.
type Key [32]byte

// Options configure a Store. All fields are required.
type Options struct {
	Client redis.UniversalClient
	App    string // begins all keys in Redis; it has no braces
}

// Store keeps secrets and what forms led to. It is safe for concurrent use, by several processes
// too.
type Store struct {
	o Options
	// forms are those of users, strangers the others.
	forms, strangers *newest.List
}

// New checks the options and returns a Store.
func New(o Options) (*Store, error) {
	if o.Client == nil || o.App == "" {
		return nil, errors.New("once: Client or App is not set")
	}
	return &Store{
		o: o, forms: newest.New(o.Client, o.App, "form", FormLifetime),
		strangers: newest.New(o.Client, o.App, "strangers-form", FormLifetime),
	}, nil
}

func (s *Store) secret(name string) string { return s.o.App + ":once:" + name }

// Keep keeps a secret for SecretLifetime and returns its name, which is for a URL: who has the name
// and not the key learns nothing.
func (s *Store) Keep(ctx context.Context, key Key, secret []byte) (name string, err error) {
	name = secrets.New()
	sealed, err := seal(key, name, secret)
	if err != nil {
		return "", err
	}
	if err := s.o.Client.Set(ctx, s.secret(name), sealed, SecretLifetime).Err(); err != nil {
		return "", fmt.Errorf("redis: keep secret: %w", err)
	}
	return name, nil
}

// Secret returns a secret and for how long it still can be shown. ErrGone.
func (s *Store) Secret(ctx context.Context, key Key, name string) (secret []byte, left time.Duration, err error) {
	if !secrets.Is(name) {
		return nil, 0, ErrGone
	}
	pipe := s.o.Client.Pipeline()
	sealed, ttl := pipe.Get(ctx, s.secret(name)), pipe.PTTL(ctx, s.secret(name))
	switch _, err := pipe.Exec(ctx); {
	case errors.Is(err, redis.Nil):
		return nil, 0, ErrGone
	case err != nil:
		return nil, 0, fmt.Errorf("redis: read secret: %w", err)
	}
	if secret, err = open(key, name, []byte(sealed.Val())); err != nil {
		return nil, 0, ErrGone
	}
	return secret, max(0, ttl.Val()), nil
}

// Remove forgets a secret. For one that is unknown, gone or another session's it does nothing.
func (s *Store) Remove(ctx context.Context, key Key, name string) error {
	if _, _, err := s.Secret(ctx, key, name); errors.Is(err, ErrGone) {
		return nil
	} else if err != nil {
		return err
	}
	if err := s.o.Client.Del(ctx, s.secret(name)).Err(); err != nil {
		return fmt.Errorf("redis: remove secret: %w", err)
	}
	return nil
}

// seal encrypts with AES-256-GCM; what is sealed under one name cannot be opened under another.
func seal(key Key, name string, content []byte) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, content, []byte(name)), nil
}

func open(key Key, name string, sealed []byte) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, sealed, []byte(name))
}

func newAEAD(key Key) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
