package secrets

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
)

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

// ErrTooSoon means that the file of the previous data key is less than ten minutes old. Another
// rotation would lose what that key sealed and auth, which reads the present and the previous key
// only, has not sealed anew.
var ErrTooSoon = errors.New("the data key was replaced less than ten minutes ago: auth has to start with it first")

// tooSoon is how old the file of the previous data key must be for RotateDataKey to replace it,
// unless it holds the present key.
const tooSoon = 10 * time.Minute

// RotateDataKey makes a new key that seals the secrets of authenticator apps and the keys of logins
// at applications. The present one becomes the previous one; what it sealed, auth seals anew at its
// start. ErrTooSoon.
func RotateDataKey(folder string, now time.Time) error {
	file, previous := path(folder, auth, DataKey), path(folder, auth, PreviousDataKey)
	present, err := os.ReadFile(file) //nolint:gosec // our own file
	if err != nil {
		return fmt.Errorf("the data key: %w", err)
	}
	// A rotation that was cut short left both files the same, and is finished.
	before, err := os.ReadFile(previous) //nolint:gosec // our own file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the previous data key: %w", err)
	}
	if err == nil && !bytes.Equal(before, present) {
		info, err := os.Stat(previous)
		if err != nil {
			return err
		}
		if now.Sub(info.ModTime()) < tooSoon {
			return ErrTooSoon
		}
	}
	if err := WriteFile(previous, bytes.NewReader(present), private); err != nil {
		return err
	}
	return WriteFile(file, strings.NewReader(newDataKey()), private)
}

// NewDataKey is given to PutDataKey instead of a key to make a new one, because no copy of the earlier
// key is left.
const NewDataKey = "new"

// PutDataKey puts a data key back: it becomes the present one where there is none, and else
// the previous one, unless it is the present one. At its start auth seals anew what the previous
// one sealed. The key is 64 hexadecimal digits, or NewDataKey, which changes no key where one is present.
func PutDataKey(folder, key string) error {
	key = strings.TrimSpace(key)
	made := key == NewDataKey
	if made {
		key = newDataKey()
	} else if raw, err := hex.DecodeString(key); err != nil || len(raw) != dataKeySize {
		return errors.New("that is no data key: it has 64 hexadecimal digits") // not what it holds
	}
	file := path(folder, auth, DataKey)
	present, err := os.ReadFile(file) //nolint:gosec // our own file
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = WriteFile(file, strings.NewReader(key), private)
	case err == nil && !made && !strings.EqualFold(strings.TrimSpace(string(present)), key):
		err = WriteFile(path(folder, auth, PreviousDataKey), strings.NewReader(key), private)
	}
	if err != nil {
		return err
	}
	return sealed(folder)
}

// sealed returns ErrSealed while the folder lacks the data key that restored secrets need. When a data key is there,
// it removes the mark Sealed.
func sealed(folder string) error {
	wanted := mark(folder, Sealed)
	if _, err := os.Stat(wanted); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := os.Stat(path(folder, auth, DataKey)); errors.Is(err, fs.ErrNotExist) {
		return ErrSealed
	} else if err != nil {
		return err
	}
	return os.Remove(wanted)
}

// RotateRedis makes a new password of Redis, for auth and for Redis.
func RotateRedis(folder string) error {
	file := path(folder, auth, redisURL)
	u, err := readURL(file)
	if err != nil {
		return err
	}
	password := rand.Text()
	u.User = url.UserPassword(u.User.Username(), password)
	// A fault in between is mended by MakeRedis, which setup calls where it makes secrets.
	if err := WriteFile(file, strings.NewReader(u.String()), private); err != nil {
		return err
	}
	return writeRedis(folder, password)
}

// AlterRoles is a file for psql beside what a new Postgres reads. Its name does not end in
// .sql, or a new Postgres would read it too.
const AlterRoles = "alter-roles"

// RotateDatabases makes new passwords of a Postgres: for the services, for a new Postgres,
// and as SQL for the one that runs, AlterRoles, which the operator carries out.
func RotateDatabases(folder, roles string) error {
	superuser := rand.Text()
	alter := fmt.Sprintf("ALTER ROLE postgres PASSWORD '%s';\n", superuser)
	urls, files := map[string]string{}, map[string]string{filepath.Join(roles, superuserPassword): superuser}
	for _, service := range []string{auth, verifier} {
		file := path(folder, service, databaseURL(service))
		u, err := readURL(file)
		if err != nil {
			return err
		}
		password := rand.Text()
		u.User = url.UserPassword(u.User.Username(), password)
		alter += fmt.Sprintf("ALTER ROLE %s PASSWORD '%s';\n", service, password)
		urls[file], files[filepath.Join(roles, service+".sql")] = u.String(), roleOf(service, password)
	}
	files[filepath.Join(roles, AlterRoles)] = "BEGIN;\n" + alter + "COMMIT;\n"
	// The URLs come last: until then the services go on with what Postgres knows.
	for file, content := range files {
		if err := WriteFile(file, strings.NewReader(content), readable); err != nil {
			return err
		}
	}
	for file, content := range urls {
		if err := WriteFile(file, strings.NewReader(content), private); err != nil {
			return err
		}
	}
	return nil
}

// AnnounceReceiptKey makes the next key that signs receipts, and lists its public
// key as next, so that buyers who keep the key document know it before it signs.
// While one is announced, it makes no other.
func AnnounceReceiptKey(folder string) error {
	fresh, err := newReceiptKey()
	if err != nil {
		return err
	}
	file := path(folder, verifier, NextReceiptKey)
	if err := once(file, fresh, private); err != nil {
		return err
	}
	next, err := readKey(file)
	if err != nil {
		return err
	}
	return list(folder, next, receipt.KeyNext)
}

// ErrNotAnnounced means that there is no next receipt key to rotate to.
var ErrNotAnnounced = errors.New("the next receipt key is not announced")

// RotateReceiptKey makes the announced key the one that signs, and lists the
// public key of the present one as retired, so that its receipts stay valid.
// ErrNotAnnounced.
func RotateReceiptKey(folder string) error {
	present, err := readKey(path(folder, verifier, ReceiptKey))
	if err != nil {
		return err
	}
	next := path(folder, verifier, NextReceiptKey)
	if _, err := readKey(next); errors.Is(err, fs.ErrNotExist) {
		return ErrNotAnnounced
	} else if err != nil {
		return err
	}
	// The key that signs may stand in the list as well, so the list is right before
	// and after the next step, the rename, which is atomic.
	if err := list(folder, present, receipt.KeyRetired); err != nil {
		return err
	}
	file := path(folder, verifier, ReceiptKey)
	if err := os.Rename(next, file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

// list puts a public key into the list of those that do not sign, in place of its
// entry there.
func list(folder string, key *receipt.SigningKey, status string) error {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	entry := receipt.Key{KeyID: key.ID(), Status: status, PublicKey: base64.StdEncoding.EncodeToString(der)}
	keys, err := listed(folder)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k receipt.Key) bool { return k.KeyID == entry.KeyID })
	return writeList(folder, append(keys, entry))
}

// listed returns the public keys of the list, none where there is no list.
func listed(folder string) ([]receipt.Key, error) {
	text, err := os.ReadFile(path(folder, verifier, RetiredKeys))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the list of keys: %w", err)
	}
	keys, err := receipt.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("the list of keys: %w", err)
	}
	return keys, nil
}

func writeList(folder string, keys []receipt.Key) error {
	text, err := json.MarshalIndent(keys, "", "  ")
	if err == nil {
		_, err = receipt.ParseKeys(text) // else the verifier would not start
	}
	if err != nil {
		return err
	}
	return WriteFile(path(folder, verifier, RetiredKeys), bytes.NewReader(text), private)
}

// ErrNotListed is returned when the key to revoke still signs, or is unknown.
var ErrNotListed = errors.New("it is not in the list of keys: a key that signs is replaced first (-announce, -rotate " +
	"receipt-key)")

// RevokeReceiptKey makes a key of the list a revoked one: a key that signed, whose receipts
// are no longer valid but for those that the log has below its cut-off, or the announced one,
// which then never signs. If cutOff is nil, the key keeps the one that it has. ErrNotListed.
func RevokeReceiptKey(folder, keyID string, cutOff *receipt.Logged, now time.Time) error {
	keys, err := listed(folder)
	if err != nil {
		return err
	}
	present, err := readKey(path(folder, verifier, ReceiptKey))
	if err != nil {
		return err
	}
	at := slices.IndexFunc(keys, func(k receipt.Key) bool { return k.KeyID == keyID })
	if at < 0 || keyID == present.ID() {
		return fmt.Errorf("%s: %w", keyID, ErrNotListed)
	}
	// The announced key goes first: else a fault in between would leave one that is revoked
	// and can begin to sign.
	next := path(folder, verifier, NextReceiptKey)
	if announced, err := readKey(next); err == nil && announced.ID() == keyID {
		if err := os.Remove(next); err != nil {
			return err
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if keys[at].Status != receipt.KeyRevoked {
		keys[at].Status, keys[at].RevokedAt = receipt.KeyRevoked, now.UTC().Format(time.RFC3339)
	}
	if cutOff != nil {
		keys[at].Logged = cutOff
	}
	return writeList(folder, keys)
}

func readKey(file string) (*receipt.SigningKey, error) {
	text, err := os.ReadFile(file) //nolint:gosec // our own file
	if err != nil {
		return nil, fmt.Errorf("a receipt key: %w", err)
	}
	return receipt.ParseSigningKey(text)
}
