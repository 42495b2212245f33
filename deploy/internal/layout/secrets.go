package layout

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
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

// The services that have secrets.
const (
	auth     = "auth"
	verifier = "verifier"
	redis    = "redis"
)

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

// unfinishedRestore is the file that the program backup keeps beside the receipt
// key from the beginning of a restore until it has succeeded.
const unfinishedRestore = "restore-unfinished"

// ErrRestore is that a restore was begun and did not succeed. What it was to restore
// must not be created anew.
var ErrRestore = errors.New("a restore was begun and did not succeed: repeat it with a whole archive")

// restored returns ErrRestore while a restore is unfinished.
func restored(folder string) error {
	if _, err := os.Stat(path(folder, verifier, unfinishedRestore)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(ErrRestore, err)
	}
	return nil
}

// MakeSecrets makes what the services sign with, where it is not there yet, and
// what they read of former times: a previous session secret that never signed
// anything, and an empty list of keys. ErrRestore.
func MakeSecrets(folder string) error {
	if err := restored(folder); err != nil {
		return err
	}
	var faults []error
	for place, content := range map[string]func() ([]byte, error){
		path(folder, auth, sessionSecret):   secret,
		path(folder, auth, previousSecret):  secret,
		path(folder, verifier, receiptKey):  newReceiptKey,
		path(folder, verifier, retiredKeys): func() ([]byte, error) { return []byte("[]\n"), nil },
	} {
		_, err := once(place, content)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// TakeOver copies the secrets of an installation that kept them all in one
// folder, where the folders of the services have none yet. The file without
// which a service has no secrets comes last, so that a copy that was cut short is
// made again, and one that was finished is not: what is rotated afterwards stays.
// ErrRestore.
func TakeOver(before, folder string) error {
	if err := restored(folder); err != nil {
		return err
	}
	for service, names := range map[string][]string{
		auth:     {adminPassword, databaseURL(auth), previousSecret, sessionSecret},
		verifier: {databaseURL(verifier), nextKey, retiredKeys, receiptKey},
	} {
		last := names[len(names)-1]
		if _, err := os.Stat(path(folder, service, last)); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return err
			}
			continue
		}
		for _, name := range names {
			content, err := os.ReadFile(filepath.Join(before, name)) //nolint:gosec // our own file
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return fmt.Errorf("take over: %w", err)
			}
			if err := replace(path(folder, service, name), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// MakeRedis makes, where it is not there yet, the password of a Redis on a host:
// redis-url for auth, and redis.conf, which Redis reads. Redis is another user, so
// that one is readable for every user who sees its folder.
func MakeRedis(folder, host string) error {
	file := path(folder, auth, "redis-url")
	fresh := url.URL{Scheme: "redis", User: url.UserPassword("", rand.Text()), Host: net.JoinHostPort(host, "6379")}
	kept, err := onceURL(file, fresh)
	if err != nil {
		return err
	}
	password, _ := kept.User.Password()
	conf, content := path(folder, redis, "redis.conf"), "requirepass "+password+"\n"
	if old, err := os.ReadFile(conf); err == nil && string(old) == content { //nolint:gosec // our own file
		return nil
	}
	if err := replace(conf, []byte(content)); err != nil {
		return err
	}
	return os.Chmod(conf, worldReadable)
}

func secret() ([]byte, error) { return []byte(rand.Text() + rand.Text()), nil }

func newReceiptKey() ([]byte, error) {
	key, err := receipt.GenerateKey()
	if err != nil {
		return nil, err
	}
	return key.PEM()
}

// MakeAdminPassword makes the password of the first administrator where it is not
// there yet, and returns it.
func MakeAdminPassword(folder string) (string, error) {
	file := path(folder, auth, adminPassword)
	if _, err := once(file, func() ([]byte, error) { return []byte(strings.ToLower(rand.Text())), nil }); err != nil {
		return "", err
	}
	password, err := os.ReadFile(file) //nolint:gosec // our own file
	return string(password), err
}

// once writes a file that is not there yet, whole or not at all.
func once(file string, content func() ([]byte, error)) (made bool, err error) {
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	data, err := content()
	if err != nil {
		return false, fmt.Errorf("make %s: %w", file, err)
	}
	return true, replace(file, data)
}

// replace writes a file, whole and on the disk or not at all: a key that signed
// and was then lost cannot be made again.
func replace(file string, content []byte) error {
	f, err := os.OpenFile(file+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // our own file
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(file+".new", file)
}
