package secrets

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pforte/pforte/pkg/receipt"
)

// The files of the secrets of auth and verifier.
const (
	AdminPassword   = "admin-password"
	Session         = "session-secret"
	PreviousSession = "session-secret-previous"
	DataKey         = "data-key"
	PreviousDataKey = "data-key-previous"
	ReceiptKey      = "receipt-key.pem"
	NextReceiptKey  = "receipt-key-next.pem"
	RetiredKeys     = "retired-keys.json"
)

// Unfinished is the mark of a restore that was begun and has not succeeded. While it is there, Make,
// MakeHousehold, MakeLog and TakeOver fail: what was to be restored is not made anew, and services
// that start after setup do not start.
const Unfinished = "restore-unfinished"

// Sealed is the mark that a restore leaves when it has put back users with authenticator apps. Until
// a data key is there, setup makes none unasked, because a new one would open none of their secrets.
const Sealed = "data-key-wanted"

// The files with the URL of auth's Redis, which has its password, and with the password of Postgres's superuser.
const (
	redisURL          = "redis-url"
	superuserPassword = "superuser-password"
)

// The services that have secrets.
const (
	auth     = "auth"
	verifier = "verifier"
	redis    = "redis"
)

// users is the folder of auth's database below the one of all secrets, in a household in containers.
const users = "users"

// The modes of a file of its service only, and of one that a program of another user
// reads.
const (
	private  = 0o600
	readable = 0o444
)

// witnessName returns the name of one of our witnesses: of its folder, and of its files.
func witnessName(number int) string { return fmt.Sprintf("witness-%d", number) }

// path returns where a service's secret is: in the folder of the service's name
// below folder where there is one, so that each service can be given its own
// secrets only, and else in folder itself.
func path(folder, service, name string) string {
	own := filepath.Join(folder, service)
	if info, err := os.Stat(own); err == nil && info.IsDir() {
		return filepath.Join(own, name)
	}
	return filepath.Join(folder, name)
}

// mark returns where a restore leaves a mark: in the folder users where there is one, as in a
// household in containers, and else where the receipt key is, or would be.
func mark(folder, name string) string {
	beside := filepath.Join(folder, users)
	if info, err := os.Stat(beside); err == nil && info.IsDir() {
		return filepath.Join(beside, name)
	}
	return path(folder, verifier, name)
}

// ErrRestore means that a restore was begun and did not succeed. What it was to restore
// must not be created anew.
var ErrRestore = errors.New("a restore was begun and did not succeed: repeat it with a whole archive")

// restored returns ErrRestore while a restore is unfinished.
func restored(folder string) error {
	if _, err := os.Stat(mark(folder, Unfinished)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(ErrRestore, err)
	}
	return nil
}

// ErrSealed is returned when a new data key would open none of the secrets that were restored.
var ErrSealed = errors.New("users with authenticator apps were restored, and their data key is not here: " +
	"put its copy back with -data-key FILE or, when it is lost, make a new one with -data-key new")

// Make makes what the services sign and seal with, where it is not there yet, and the earlier
// values that they read too: a previous session secret and data key that were never used, and an
// empty list of keys. ErrRestore, ErrSealed.
func Make(folder string) error {
	if err := MakeHousehold(folder); err != nil {
		return err
	}
	key, err := newReceiptKey()
	if err != nil {
		return err
	}
	return errors.Join(
		once(path(folder, verifier, ReceiptKey), key, private),
		once(path(folder, verifier, RetiredKeys), "[]\n", private),
	)
}

// MakeHousehold is Make where there is no verifier. ErrRestore, ErrSealed.
func MakeHousehold(folder string) error {
	if err := restored(folder); err != nil {
		return err
	}
	if err := sealed(folder); err != nil {
		return err
	}
	return errors.Join(
		once(path(folder, auth, Session), newSecret(), private),
		once(path(folder, auth, PreviousSession), newSecret(), private),
		once(path(folder, auth, PreviousDataKey), newDataKey(), private),
		once(path(folder, auth, DataKey), newDataKey(), private),
	)
}

// MakeAdminPassword makes the password of the first administrator where it is not
// there yet, and returns it.
func MakeAdminPassword(folder string) (string, error) {
	file := path(folder, auth, AdminPassword)
	if err := once(file, strings.ToLower(rand.Text()), private); err != nil {
		return "", err
	}
	password, err := os.ReadFile(file) //nolint:gosec // our own file
	return string(password), err
}

// MakeRedis makes, where it is not there yet, the password of a Redis on a host: redis-url for
// auth, and redis.conf, which Redis reads. Redis runs as another user, so every user who sees its
// folder can read redis.conf.
func MakeRedis(folder, host string) error {
	password, err := makeURL(path(folder, auth, redisURL),
		url.URL{Scheme: "redis", User: url.UserPassword("", rand.Text()), Host: net.JoinHostPort(host, "6379")})
	if err != nil {
		return err
	}
	return writeRedis(folder, password)
}

// RedisURL returns the URL of Redis, with its password, that MakeRedis has made.
func RedisURL(folder string) (string, error) {
	u, err := readURL(path(folder, auth, redisURL))
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

func writeRedis(folder, password string) error {
	conf, content := path(folder, redis, "redis.conf"), "requirepass "+password+"\n"
	if old, err := os.ReadFile(conf); err == nil && string(old) == content { //nolint:gosec // our own file
		return nil
	}
	return WriteFile(conf, strings.NewReader(content), readable)
}

// MakeDatabases makes, where they are not there yet, the secrets of a Postgres on a host: into
// folder the file SERVICE-database-url for auth and verifier, and into roles what a new Postgres
// reads: SERVICE.sql, which makes the role and the database, and the superuser's password. Postgres
// runs as another user, so every user who sees the folder roles can read the files in it.
func MakeDatabases(folder, roles, host string) error {
	faults := []error{once(filepath.Join(roles, superuserPassword), rand.Text(), readable)}
	for _, service := range []string{auth, verifier} {
		password, err := makeURL(path(folder, service, databaseURL(service)), url.URL{
			Scheme: "postgres", User: url.UserPassword(service, rand.Text()), Host: net.JoinHostPort(host, "5432"),
			Path:     service,
			RawQuery: "sslmode=disable", // the network is the stack's own
		})
		if err == nil {
			err = once(filepath.Join(roles, service+".sql"), roleOf(service, password), readable)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// roleOf returns the SQL that makes a service's role and database.
func roleOf(service, password string) string {
	return fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD '%[2]s';\nCREATE DATABASE %[1]s OWNER %[1]s;\nREVOKE ALL ON "+
		"DATABASE %[1]s FROM PUBLIC;\n", service, password)
}

// databaseURL returns the name of the file with the URL of a service's database.
func databaseURL(service string) string { return service + "-database-url" }

// makeURL writes a URL with a new password to a file, unless the file is there already, and returns
// the password in the file.
func makeURL(file string, fresh url.URL) (password string, err error) {
	if err := once(file, fresh.String(), private); err != nil {
		return "", err
	}
	kept, err := readURL(file)
	if err != nil {
		return "", err
	}
	password, _ = kept.User.Password()
	return password, nil
}

func readURL(file string) (*url.URL, error) {
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

// TakeOver copies the secrets of auth and verifier of an installation that kept them all in
// one folder, where the folders of the services have none yet. The file without
// which a service has no secrets comes last, so that a copy that was cut short is
// made again, and one that was finished is not: what is rotated afterwards stays.
// ErrRestore.
func TakeOver(before, folder string) error {
	if err := restored(folder); err != nil {
		return err
	}
	for service, names := range map[string][]string{
		auth:     {AdminPassword, databaseURL(auth), PreviousSession, PreviousDataKey, DataKey, Session},
		verifier: {databaseURL(verifier), NextReceiptKey, RetiredKeys, ReceiptKey},
	} {
		last := names[len(names)-1]
		if _, err := os.Stat(path(folder, service, last)); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			content, err := os.ReadFile(filepath.Join(before, name)) //nolint:gosec // our own file
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return fmt.Errorf("take over: %w", err)
			}
			if err := WriteFile(path(folder, service, name), bytes.NewReader(content), private); err != nil {
				return err
			}
		}
	}
	return nil
}

// dataKeySize is the length of a data key, in bytes.
const dataKeySize = 32

// newDataKey returns a key that seals the secrets of authenticator apps and the keys of logins at
// applications: 32 bytes in hexadecimal.
func newDataKey() string {
	var key [dataKeySize]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(key[:])
}

func newSecret() string { return rand.Text() + rand.Text() }

func newReceiptKey() (string, error) {
	key, err := receipt.GenerateKey()
	if err != nil {
		return "", err
	}
	text, err := key.PEM()
	return string(text), err
}

// once writes a file unless it is there already.
func once(file, content string, mode os.FileMode) error {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return WriteFile(file, strings.NewReader(content), mode)
}

// WriteFile writes a file whole or not at all: the content is on the disk before it replaces what was
// at the path.
func WriteFile(file string, content io.Reader, mode os.FileMode) error {
	partial := file + ".new"
	// of a write that was killed, which may not be writable
	_ = os.Remove(partial)
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_EXCL|os.O_WRONLY, private) //nolint:gosec // the operator's
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = f.ReadFrom(content)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(partial)))
	}
	if err := os.Rename(partial, file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

// syncFolder has the names in a folder outlive a loss of power: a key must last as long as what it has sealed.
func syncFolder(folder string) error {
	f, err := os.Open(folder) //nolint:gosec // the operator's
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
