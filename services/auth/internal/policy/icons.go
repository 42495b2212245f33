package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/picture"
	"github.com/pforte/pforte/services/auth/internal/session"
)

// MaxIcon bounds the file of an application's picture, in bytes.
const MaxIcon = 256 << 10

// IconOf returns the picture that is kept of an uploaded file. picture.ErrFormat, application.ErrIconTooLarge; the
// error of ctx if it ends while another picture is encoded.
func (s *Service) IconOf(ctx context.Context, file []byte) (application.Icon, error) {
	png, err := s.icons.Encode(ctx, file)
	if errors.Is(err, picture.ErrTooLarge) {
		err = application.ErrIconTooLarge
	}
	if err != nil {
		return application.Icon{}, err
	}
	sum := sha256.Sum256(png)
	return application.Icon{Hash: hex.EncodeToString(sum[:]), PNG: png}, nil
}

// SetIcon sets the picture of an application on behalf of an admin or user.Operator; the zero value removes it.
// application.ErrNotFound, user.ErrNotAdmin, session.ErrNotFound.
func (s *Service) SetIcon(ctx context.Context, by session.Session, slug string, icon application.Icon) error {
	defer s.snapshot.Outdate()
	return s.o.Applications.SetIcon(ctx, slug, icon, by)
}

// Icon returns the picture with a hash, of an application that App knows. A hash that none of them has costs no query
// of its own. application.ErrNotFound.
func (s *Service) Icon(ctx context.Context, hash string) ([]byte, error) {
	apps, err := s.snapshot.Get(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range apps {
		if a.Icon == hash && hash != "" {
			return s.o.Applications.Icon(ctx, hash)
		}
	}
	return nil, application.ErrNotFound
}
