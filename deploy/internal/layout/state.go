package layout

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// Prepare makes what the state lacks: its folders and secrets.
func (l Layout) Prepare() error {
	for _, folder := range []string{"", "redis", "proxy"} {
		if err := os.MkdirAll(l.Path(folder), 0o700); err != nil {
			return fmt.Errorf("folder for state: %w", err)
		}
	}
	_, err := MakeAdminPassword(l.State)
	return errors.Join(err, MakeSecrets(l.State))
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
