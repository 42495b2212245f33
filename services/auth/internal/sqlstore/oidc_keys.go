package sqlstore

import (
	"context"

	"github.com/pforte/pforte/pkg/sqldb"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/oidc"
)

// Keys keeps the keys of the OpenID Connect provider.
type Keys struct{ db *database }

const selectKeys = `SELECT kid, alg, sealed, jwk, state, since FROM oidc_keys ORDER BY since DESC, kid`

func scanKey(row sqldb.Scanner) (k oidc.StoredKey, err error) {
	err = row.Scan(&k.ID, &k.Alg, &k.Sealed, &k.JWK, &k.State, (*instant)(&k.Since))
	return k, err
}

// Keys implements oidc.Keys.
func (s *Keys) Keys(ctx context.Context) ([]oidc.StoredKey, error) {
	return list(ctx, s.db, "list keys", scanKey, selectKeys)
}

// ChangeKeys implements oidc.Keys.
func (s *Keys) ChangeKeys(
	ctx context.Context, rotates bool, change func([]oidc.StoredKey) ([]oidc.StoredKey, error),
) error {
	return s.db.write(ctx, timeout, "change keys", func(ctx context.Context, tx *transaction) error {
		if err := tx.lock(ctx, "oidc_keys"); err != nil {
			return err
		}
		before, err := all(ctx, tx, scanKey, selectKeys)
		if err != nil {
			return err
		}
		after, err := change(before)
		if err != nil {
			return err
		}
		if err := tx.exec(ctx, `DELETE FROM oidc_keys`); err != nil {
			return err
		}
		for _, k := range after {
			err := tx.exec(ctx, `INSERT INTO oidc_keys (kid, alg, sealed, jwk, state, since) VALUES (?, ?, ?, ?, ?, ?)`,
				k.ID, string(k.Alg), k.Sealed, k.JWK, string(k.State), k.Since.Unix())
			if err != nil {
				return err
			}
		}
		if !rotates {
			return nil
		}
		return tx.record(ctx, audit.Event{Name: "oidc_key_rotated"})
	})
}
