package password

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/text/unicode/norm"
)

// longScheme marks the stored hash of a password that plain bcrypt does not compare
// exactly.
const longScheme = "sha256:"

// maxBcrypt is how many bytes bcrypt reads.
const maxBcrypt = 72

// Errors of CheckImport.
var (
	// ErrHash is returned for a hash that no password can match.
	ErrHash = errors.New("password_hash is not a bcrypt hash ($2a$, $2b$ or $2y$)")
	// ErrHashCost is returned for a hash that would take too long to compare with.
	ErrHashCost = fmt.Errorf(
		"password_hash has a bcrypt cost over %d, which would make every failed login take seconds", MaxImportCost)
)

// form is that of a bcrypt hash: minor version, cost, 22 characters of salt and 31 of hash.
var form = regexp.MustCompile(`\A\$2[a-z]\$\d\d\$[./A-Za-z0-9]{53}\z`)

// exact reports whether plain bcrypt tells the password from every other for which exact holds.
func exact(password string) bool {
	return len(password) <= maxBcrypt && !strings.Contains(password, "\x00")
}

// joiner is U+034F, which x/text inserts into a row of more than 30 combining marks.
const joiner = "\u034f"

// forms returns the forms of a password that Verify compares, each once: NFC, as sent,
// NFD. Their number depends on the password alone. Invalid UTF-8, and text that x/text
// changes beyond its form, have only the one as sent.
func forms(password string) []string {
	nfc, nfd := norm.NFC.String(password), norm.NFD.String(password)
	joined := strings.Count(password, joiner)
	if !utf8.ValidString(password) || strings.Count(nfc, joiner) != joined || strings.Count(nfd, joiner) != joined {
		return []string{password}
	}
	found := []string{nfc}
	for _, form := range []string{password, nfd} {
		if !slices.Contains(found, form) {
			found = append(found, form)
		}
	}
	return found
}

// normalize returns the form of a password that is stored: NFC, or as sent where forms has only that.
func normalize(password string) string { return forms(password)[0] }

// digest returns bcrypt's input for a hash with longScheme: 44 bytes without NUL.
func digest(password string) []byte {
	sum := sha256.Sum256([]byte(password))
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// stored is a parsed stored hash.
type stored struct {
	hash    string // bcrypt's own form
	cost    int
	long    bool // of a digest
	foreign bool // of another program, which shortened long passwords
}

// parse parses a stored hash; it reports false for one of unknown form.
func parse(text string) (stored, bool) {
	hash, long := strings.CutPrefix(text, longScheme)
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil || !form.MatchString(hash) {
		return stored{}, false
	}
	s := stored{hash: hash, cost: cost, long: long}
	switch hash[:4] {
	case "$2a$":
	case "$2b$", "$2y$":
		s.foreign = !long
	default:
		return stored{}, false
	}
	return s, true
}

// input returns bcrypt's input to compare with the hash; false: the password cannot
// match, whatever bcrypt returns.
func (s stored) input(password string) ([]byte, bool) {
	switch {
	case s.long:
		return digest(password), true
	case s.foreign:
		return []byte(password[:min(len(password), maxBcrypt)]), true
	default:
		return []byte(password[:min(len(password), maxBcrypt)]), exact(password)
	}
}

// CheckImport returns ErrHash or ErrHashCost for a hash that cannot be imported.
func CheckImport(hash string) error {
	switch s, ok := parse(hash); {
	case !ok:
		return ErrHash
	case s.cost > MaxImportCost:
		return ErrHashCost
	default:
		return nil
	}
}
