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
)

// MakeSecrets makes what the services sign with, where it is not there yet.
func MakeSecrets(folder string) error {
	_, secretErr := once(filepath.Join(folder, sessionSecret), func() ([]byte, error) { return []byte(rand.Text() + rand.Text()), nil })
	_, keyErr := once(filepath.Join(folder, receiptKey), func() ([]byte, error) {
		key, err := receipt.GenerateKey()
		if err != nil {
			return nil, err
		}
		return key.PEM()
	})
	return errors.Join(secretErr, keyErr)
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
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return false, fmt.Errorf("make %s: %w", path, err)
	}
	return true, os.Rename(path+".new", path)
}
