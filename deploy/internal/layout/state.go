package layout

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
)

// The files of the state that are made once.
const (
	adminPassword = "admin-password"
	sessionSecret = "session-secret"
	receiptKey    = "receipt-key.pem"
)

// Prepare makes what the state lacks: its folders and secrets.
func (l Layout) Prepare() error {
	for _, folder := range []string{"", "redis", "proxy"} {
		if err := os.MkdirAll(l.Path(folder), 0o700); err != nil {
			return fmt.Errorf("folder for state: %w", err)
		}
	}
	random := func() ([]byte, error) { return []byte(strings.ToLower(rand.Text())), nil }
	return errors.Join(
		once(l.Path(adminPassword), random),
		once(l.Path(sessionSecret), func() ([]byte, error) { return []byte(rand.Text() + rand.Text()), nil }),
		once(l.Path(receiptKey), func() ([]byte, error) {
			key, err := receipt.GenerateKey()
			if err != nil {
				return nil, err
			}
			return key.PEM()
		}),
	)
}

// once writes a file that is not there yet, whole or not at all.
func once(path string, content func() ([]byte, error)) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := content()
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return os.Rename(path+".new", path)
}

// AdminPassword is the generated password of the first administrator.
func (l Layout) AdminPassword() (string, error) {
	content, err := os.ReadFile(l.Path(adminPassword))
	if err != nil {
		return "", fmt.Errorf("the administrator's password: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// split is for addresses that we made ourselves.
func split(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, ""
	}
	return host, port
}
