package secrets

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
)

// nextKey is the key that is announced.
const nextKey = "receipt-key-next.pem"

// RotateSession makes a new secret that signs cookies. The present one
// becomes the previous one, whose cookies stay valid; the one before that ends.
func RotateSession(folder string) error {
	present, err := os.ReadFile(path(folder, auth, Session))
	if err != nil {
		return fmt.Errorf("the session secret: %w", err)
	}
	// In this order a fault in between ends no session: both files are the same.
	if err := WriteFile(path(folder, auth, PreviousSession), bytes.NewReader(present), private); err != nil {
		return err
	}
	return WriteFile(path(folder, auth, Session), strings.NewReader(newSecret()), private)
}

// AnnounceReceiptKey makes the next key that signs receipts, and lists its public
// key as next, so that buyers who keep the key document know it before it signs.
// Again it does nothing.
func AnnounceReceiptKey(folder string) error {
	fresh, err := newReceiptKey()
	if err != nil {
		return err
	}
	file := path(folder, verifier, nextKey)
	if err := once(file, fresh, private); err != nil {
		return err
	}
	next, err := readKey(file)
	if err != nil {
		return err
	}
	return list(folder, next, receipt.KeyNext)
}

// ErrNotAnnounced is that a key would sign that is not published yet.
var ErrNotAnnounced = errors.New("the next receipt key is not announced")

// RotateReceiptKey makes the announced key the one that signs, and lists the
// public key of the present one as retired, so that its receipts verify for ever.
// ErrNotAnnounced.
func RotateReceiptKey(folder string) error {
	present, err := readKey(path(folder, verifier, ReceiptKey))
	if err != nil {
		return err
	}
	next := path(folder, verifier, nextKey)
	if _, err := readKey(next); errors.Is(err, fs.ErrNotExist) {
		return ErrNotAnnounced
	} else if err != nil {
		return err
	}
	// The key that signs may stand in the list as well, so the list is right before
	// and after the next step, which is one.
	if err := list(folder, present, receipt.KeyRetired); err != nil {
		return err
	}
	return os.Rename(next, path(folder, verifier, ReceiptKey))
}

// list puts a public key into the list of those that do not sign, in place of its
// entry there.
func list(folder string, key *receipt.SigningKey, status string) error {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	entry := receipt.Key{KeyID: key.ID(), Status: status, PublicKey: base64.StdEncoding.EncodeToString(der)}
	file := path(folder, verifier, RetiredKeys)
	text, err := os.ReadFile(file) //nolint:gosec // our own file
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("[]"), nil
	}
	if err != nil {
		return fmt.Errorf("the list of keys: %w", err)
	}
	keys, err := receipt.ParseKeys(text)
	if err != nil {
		return fmt.Errorf("the list of keys: %w", err)
	}
	keys = slices.DeleteFunc(keys, func(k receipt.Key) bool { return k.KeyID == entry.KeyID })
	if text, err = json.MarshalIndent(append(keys, entry), "", "  "); err != nil {
		return err
	}
	return WriteFile(file, bytes.NewReader(text), private)
}

func readKey(file string) (*receipt.SigningKey, error) {
	text, err := os.ReadFile(file) //nolint:gosec // our own file
	if err != nil {
		return nil, fmt.Errorf("a receipt key: %w", err)
	}
	return receipt.ParseSigningKey(text)
}
