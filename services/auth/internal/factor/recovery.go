package factor

import (
	"crypto/rand"
	"encoding/base32"
	"strings"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

const (
	// RecoveryCodes is how many codes a set has.
	RecoveryCodes = 10
	recoveryBytes = 10 // 80 bits: 16 characters
)

// crockford is Crockford's base32, which leaves out I, L, O and U.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

// NewRecoveryCodes returns a set of codes to show once, in groups of 4 characters, and
// the hashes to store.
func NewRecoveryCodes() (codes, hashes []string) {
	for range RecoveryCodes {
		b := make([]byte, recoveryBytes)
		_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
		code := crockford.EncodeToString(b)
		codes = append(codes, code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:])
		hashes = append(hashes, RecoveryHash(code))
	}
	return codes, hashes
}

var readAlike = strings.NewReplacer("O", "0", "I", "1", "L", "1")

// RecoveryHash returns what is stored of a recovery code: the SHA-256, hexadecimal, of what CleanCode returns, in
// capitals and with O, I and L read as 0 and 1. A code is random, so that its hash needs no salt.
func RecoveryHash(typed string) string {
	return secrets.Hash(readAlike.Replace(strings.ToUpper(CleanCode(typed))))
}
