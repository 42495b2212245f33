package layout

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
)

// The files that are made once.
const (
	adminPassword = "admin-password"
	sessionSecret = "session-secret"
	receiptKey    = "receipt-key.pem"

	previousSecret = "session-secret-previous"
	retiredKeys    = "retired-keys.json"
)

// MakeSecrets makes what the services sign with, where it is not there yet, and
// what they read of former times: a previous session secret that never signed
// anything, and an empty list of keys.
func MakeSecrets(folder string) error {
	var faults []error
	for name, content := range map[string]func() ([]byte, error){
		sessionSecret:  secret,
		previousSecret: secret,
		receiptKey:     newReceiptKey,
		retiredKeys:    func() ([]byte, error) { return []byte("[]\n"), nil },
	} {
		_, err := once(filepath.Join(folder, name), content)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func secret() ([]byte, error) { return []byte(rand.Text() + rand.Text()), nil }

func newReceiptKey() ([]byte, error) {
	key, err := receipt.GenerateKey()
	if err != nil {
		return nil, err
	}
	return key.PEM()
}

// MakeAdminPassword makes the password of the first administrator, and gives it
// unless it was there already: then it gives "".
func MakeAdminPassword(folder string) (string, error) {
	password := strings.ToLower(rand.Text())
	made, err := once(filepath.Join(folder, adminPassword), func() ([]byte, error) { return []byte(password), nil })
	if err != nil || !made {
		return "", err
	}
	return password, nil
}

// once writes a file that is not there yet, whole or not at all.
func once(path string, content func() ([]byte, error)) (made bool, err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	data, err := content()
	if err != nil {
		return false, fmt.Errorf("make %s: %w", path, err)
	}
	return true, replace(path, data)
}

// replace writes a file, whole and on the disk or not at all: a key that signed
// and was then lost cannot be made again.
func replace(path string, content []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // our own file
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}
