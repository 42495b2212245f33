package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/pforte/pforte/deploy/internal/secrets"
)

// household has the options of a stack without a verifier: only selects such a stack, and env is
// the folder of the units' settings, "" unless systemd runs it.
type household struct {
	only bool
	env  string
}

// redis returns the host of the stack's Redis if REDIS_HOST does not name it: this machine where
// systemd runs the stack, else "".
func (h household) redis() string {
	if h.env == "" {
		return ""
	}
	return "127.0.0.1"
}

// left is what the operator still has to do, as root.
var left = template.Must(template.New("").Parse(`Three commands are left:

grep -qxFf {{.Secrets}}/redis.conf /etc/redis/redis.conf || (cat {{.Secrets}}/redis.conf; ` +
	`printf 'appendonly yes\nmaxmemory-policy noeviction\n') >> /etc/redis/redis.conf; systemctl restart redis-server
systemctl daemon-reload && systemctl enable --now pforte-auth pforte-proxy pforte-backup.timer
cd /var/lib/pforte/auth && runuser -u pforte-auth -- env DATABASE_URL=sqlite:auth.db PUBLIC_URL={{.Public}} ` +
	`/opt/pforte/bin/auth setup-link
`))

// write writes the settings of the units for a site, where they are not there yet, and shows
// what is left to do. Without a domain it is a trial on this machine.
func (h household) write(folder, domain string, out io.Writer) error {
	site, public := domain, "https://"+domain
	if domain == "" {
		site, public = "http://localhost", "http://localhost"
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	redis, err := secrets.RedisURL(folder)
	if err != nil {
		return err
	}
	var faults []error
	for name, settings := range map[string][]string{
		"auth.env":   {"PUBLIC_URL=" + public, "REDIS_URL=" + redis},
		"proxy.env":  {"SITE_ADDRESS=" + site, "VERIFIER_UPSTREAM=off", "APPS=lan"},
		"backup.env": {"LEDGER_DATABASE_URL=none", "RECEIPT_SIGNING_KEY_FILE=none", "RESTORE_MARKS=" + folder},
	} {
		file := filepath.Join(h.env, name)
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, err)
			continue
		}
		faults = append(faults, secrets.WriteFile(file, strings.NewReader(strings.Join(settings, "\n")+"\n"), 0o600))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("settings of the units: %w", err)
	}
	return left.Execute(out, struct{ Secrets, Public string }{folder, public})
}
