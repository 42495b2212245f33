package oidc

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/snapshot"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Options are the parts of a Service. All fields are required unless noted.
type Options struct {
	// Issuer is PUBLIC_URL with the path of the provider; empty with Off only.
	Issuer string
	// Off is why there is no provider: ErrNoPublicURL, ErrNoPages or ErrNoDataKey; nil: there is.
	Off        error
	Clients    Clients
	Keys       Keys
	Grants     Grants
	ShortLived ShortLived
	Signer     Signer
	// MACKeys are those of refresh tokens, from NewMACKey: the current one and, if there is one, that of the previous
	// DATA_KEY. Empty with Off only.
	MACKeys [][]byte
	// HasPaths reports whether an application is below the portal's own origin, where its scripts can read our pages.
	HasPaths func(context.Context) (bool, error)
	Users    Users
	Audit    *audit.Recorder
	Log      *slog.Logger
	Now      func() time.Time
}

// Users finds users.
type Users interface {
	// ByUsername returns the user of exactly this name. user.ErrNotFound.
	ByUsername(ctx context.Context, username string) (user.User, error)
}

// Service is the provider. It is safe for concurrent use.
type Service struct {
	o        Options
	snapshot *snapshot.Snapshot[*state]
	host     string // of the issuer
}

// stateAge is after how long clients, keys and issuer in memory are read again.
const stateAge = 5 * time.Second

// state is what is kept in memory. It is read-only.
type state struct {
	clients map[string]Client // by client id
	keys    []StoredKey
	issuer  string // that is written down; empty: none
}

// New checks the options and returns a Service.
func New(o Options) (*Service, error) {
	if o.Clients == nil || o.Keys == nil || o.Grants == nil || o.ShortLived == nil || o.Signer == nil ||
		o.HasPaths == nil || o.Users == nil || o.Audit == nil || o.Log == nil || o.Now == nil {
		return nil, errors.New("oidc: a required option is not set")
	}
	if o.Off == nil && (o.Issuer == "" || len(o.MACKeys) == 0) {
		return nil, errors.New("oidc: Issuer or MACKeys is not set")
	}
	issuer, err := url.Parse(o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("oidc: issuer: %w", err)
	}
	s := &Service{o: o, host: issuer.Hostname()}
	s.snapshot = snapshot.New(snapshot.Options[*state]{What: "clients", Age: stateAge, Read: s.read, Now: o.Now})
	return s, nil
}

// NewMACKey returns the key of refresh tokens that follows from a DATA_KEY.
func NewMACKey(dataKey []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, dataKey, nil, "refresh tokens of the OpenID provider", sha256.Size)
}

// read reads the state. Where there are clients, and a key to sign with is missing or cannot be opened, it makes the
// keys, unless Options.Off is set.
func (s *Service) read(ctx context.Context) (*state, error) {
	clients, err := s.o.Clients.Clients(ctx)
	if err != nil {
		return nil, err
	}
	st := &state{clients: make(map[string]Client, len(clients))}
	for _, c := range clients {
		st.clients[c.ID] = c
	}
	if st.issuer, err = s.o.Clients.Issuer(ctx); err != nil {
		return nil, err
	}
	if st.keys, err = s.o.Keys.Keys(ctx); err != nil {
		return nil, err
	}
	if s.o.Off == nil && len(clients) > 0 && !s.complete(st.keys) {
		st.keys, err = s.makeKeys(ctx)
	}
	return st, err
}

// Off returns why there is no provider: Options.Off, ErrIssuerChanged, or what reading the state failed with; nil:
// there is one.
func (s *Service) Off(ctx context.Context) error {
	_, err := s.on(ctx)
	return err
}

// on returns the state of a provider that is not off. It fails as Off does.
func (s *Service) on(ctx context.Context) (*state, error) {
	if s.o.Off != nil {
		return nil, s.o.Off
	}
	st, err := s.snapshot.Get(ctx)
	if err != nil {
		return nil, err
	}
	if st.issuer != "" && st.issuer != s.o.Issuer {
		return nil, ErrIssuerChanged
	}
	return st, nil
}

// later has do called by audit.Recorder.Later, so that no answer waits for it. An error is logged, with what failed.
func (s *Service) later(ctx context.Context, what string, do func(context.Context) error) {
	s.o.Audit.Later(ctx, s.logged(what, do))
}

// forPage is later for notes that the application's page shows. It uses audit.Recorder.Note, because strangers can
// cause such notes without bounds.
func (s *Service) forPage(ctx context.Context, what string, do func(context.Context) error) {
	s.o.Audit.Note(ctx, s.logged(what, do))
}

// logged returns a function that calls do and logs its error, with what failed.
func (s *Service) logged(what string, do func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		if err := do(ctx); err != nil {
			s.o.Log.WarnContext(ctx, what+" failed", "error", err)
		}
	}
}

// TakeIssuer replaces the issuer that is written down by that of today's PUBLIC_URL, on behalf of an admin or
// user.Operator. user.ErrNotAdmin, session.ErrNotFound; Options.Off where PUBLIC_URL is not set.
func (s *Service) TakeIssuer(ctx context.Context, by session.Session) error {
	if s.o.Issuer == "" {
		return s.o.Off
	}
	defer s.snapshot.Outdate()
	return s.o.Clients.SetIssuer(ctx, s.o.Issuer, by)
}

// WrittenIssuer returns the issuer that is written down; empty: there was no client yet.
func (s *Service) WrittenIssuer(ctx context.Context) (string, error) {
	st, err := s.snapshot.Get(ctx)
	if err != nil {
		return "", err
	}
	return st.issuer, nil
}

// Issuer returns the issuer of today's PUBLIC_URL; empty: PUBLIC_URL is not set.
func (s *Service) Issuer() string { return s.o.Issuer }
