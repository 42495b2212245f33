package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// hashOf returns the hash by which an answer is found.
func hashOf(answer []byte) payment.Digest { return sha256.Sum256(answer) }

// byHashSQL reads the answer of any payment that has it: the same receipt has the same bytes.
const byHashSQL = "SELECT answer FROM answers WHERE hash = ? LIMIT 1"

// Answer returns the answer with a SHA-256, as long as it is kept for a payment; or ErrNotFound.
// What an earlier release wrote without a hash is found only after the next Prune.
func (l *Ledger) Answer(ctx context.Context, hash payment.Digest) (payment.Answer, error) {
	var answer []byte
	err := l.row(ctx, byHashSQL, hash).Scan(&answer)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return payment.Answer{}, payment.ErrNotFound
	case err != nil:
		return payment.Answer{}, fmt.Errorf("read an answer: %w", err)
	}
	return payment.Queued(answer), nil
}

// hashless selects some answers that have no hash: an earlier release wrote them, and may run
// beside this one.
const hashless = "SELECT payment, answer FROM answers WHERE hash IS NULL ORDER BY payment LIMIT 100"

// hashAnswers writes the hash of some answers that have none, and reports whether there were any.
func (l *Ledger) hashAnswers(ctx context.Context) (found bool, err error) {
	err = l.write(ctx, "give answers their hash", false, func(ctx context.Context, u *unit) error {
		type stored struct {
			payment int64
			hash    payment.Digest
		}
		rows, err := u.QueryContext(ctx, hashless)
		answers, err := sqldb.All(rows, err, func(row sqldb.Scanner) (s stored, err error) {
			var answer []byte
			err = row.Scan(&s.payment, &answer)
			s.hash = hashOf(answer)
			return s, err
		})
		found = len(answers) > 0
		for _, s := range answers {
			if err == nil {
				_, err = u.exec(ctx, "UPDATE answers SET hash = ? WHERE payment = ?", s.hash, s.payment)
			}
		}
		return err
	})
	return found, err
}
