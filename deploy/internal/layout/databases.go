package layout

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
)

const superuserPassword = "superuser-password"

// MakeDatabases makes, where they are not there yet, the secrets of a Postgres
// on a host: into folder the file SERVICE-database-url for auth and verifier,
// and into roles what a new Postgres reads: SERVICE.sql, which makes the role and
// the database, and the superuser's password. Postgres is another user, so those
// are readable for every user who sees the folder.
func MakeDatabases(folder, roles, host string) error {
	faults := []error{onceFor(worldReadable, filepath.Join(roles, superuserPassword), rand.Text())}
	for _, service := range []string{auth, verifier} {
		faults = append(faults, makeDatabase(folder, roles, host, service))
	}
	return errors.Join(faults...)
}

func makeDatabase(folder, roles, host, service string) error {
	fresh := url.URL{Scheme: "postgres", User: url.UserPassword(service, rand.Text()), Host: net.JoinHostPort(host, "5432"), Path: service}
	fresh.RawQuery = "sslmode=disable" // the network is the stack's own
	kept, err := onceURL(path(folder, service, databaseURL(service)), fresh)
	if err != nil {
		return err
	}
	password, _ := kept.User.Password()
	return onceFor(worldReadable, filepath.Join(roles, service+".sql"), fmt.Sprintf(
		"CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s';\nCREATE DATABASE %[1]s OWNER %[1]s;\nREVOKE ALL ON DATABASE %[1]s FROM PUBLIC;\n", service, password))
}

// databaseURL is the name of the file with the URL of a service's database.
func databaseURL(service string) string { return service + "-database-url" }

// onceURL writes a URL to a file that is not there yet, and returns the file's.
func onceURL(file string, fresh url.URL) (*url.URL, error) {
	if _, err := once(file, func() ([]byte, error) { return []byte(fresh.String()), nil }); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file) //nolint:gosec // our own file
	if err != nil {
		return nil, fmt.Errorf("read a URL: %w", err)
	}
	kept, err := url.Parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("%s holds no URL", file) // not what it holds
	}
	return kept, nil
}

const worldReadable = 0o444

// onceFor writes a file that is not there yet, with a mode.
func onceFor(mode os.FileMode, path, content string) error {
	if made, err := once(path, func() ([]byte, error) { return []byte(content), nil }); err != nil || !made {
		return err
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}
