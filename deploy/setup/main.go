// Command setup makes the secrets of a stack in containers, once. See
// `setup --help`.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/buildinfo"
)

const usage = `setup makes the secrets of a stack in a folder, where they are not there yet:
session-secret and data-key for auth and receipt-key.pem for the verifier. Where the folder has
folders auth, verifier and redis, each service's are in the one of its name.

  setup [-admin] [-from FOLDER] [-require NAMES] FOLDER
  setup -rotate session-secret|receipt-key FOLDER
  setup -announce FOLDER
  setup -version, -help

  -admin     also make admin-password, which auth reads where BOOTSTRAP_ADMIN_USERNAME
             is admin and BOOTSTRAP_ADMIN_PASSWORD_FILE names it, and show it
  -from      first copy what an installation has that kept all secrets in one
             folder, once
  -require   fail, naming them all, unless these variables of the environment are
             set (separated by spaces)
  -rotate    a new session-secret, the present one becoming the previous one; or
             the announced receipt key, the present one's public key being retired
  -announce  make the next receipt key, and list its public key

What was rotated or announced is there when its service starts again.

With REDIS_HOST in the environment also redis-url for auth, and redis.conf with
the same password, which Redis reads. With POSTGRES_HOST also auth-database-url
and verifier-database-url, and in the folder POSTGRES_ROLES (/data) what a new
Postgres reads from /docker-entrypoint-initdb.d. PUBLIC_URL is shown with -admin.

With LOG_WITNESSES, the addresses of witnesses (separated by spaces), also what a log
of receipts needs, in the name of the host of PUBLIC_URL, also where the rest was made
long ago: log-key.pem for the verifier; witness-1-key.pem and witness-1-state.json for
the first witness, and so on; and log-policy, which asks all of them, for verifier,
witnesses and mirror. RECEIPT_LOG, where it is set, must be 1: the compose file takes any
other value for it too, 0 and 2 as well.
`

// version is set by the build.
var version string //nolint:gochecknoglobals // -ldflags -X

func main() {
	if err := run(os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}

func run(args []string, getenv func(string) string, out io.Writer) error {
	flags := flag.NewFlagSet("setup", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	admin := flags.Bool("admin", false, "")
	from := flags.String("from", "", "")
	require := flags.String("require", "", "")
	rotate := flags.String("rotate", "", "")
	announce := flags.Bool("announce", false, "")
	showVersion := flags.Bool("version", false, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(out, usage)
		return err
	} else if err != nil {
		return err
	}
	if *showVersion {
		_, err := fmt.Fprintln(out, "setup", buildinfo.Version(version))
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("one folder is needed; see setup --help")
	}
	folder := flags.Arg(0)
	if *rotate != "" || *announce {
		return change(folder, *rotate, *announce)
	}
	if err := required(strings.Fields(*require), getenv); err != nil {
		return err
	}
	if value := getenv("RECEIPT_LOG"); value != "" && value != "1" {
		return fmt.Errorf("RECEIPT_LOG is %q: only 1 asks for a log of receipts; without one it is not set", value)
	}
	if *from != "" {
		if err := secrets.TakeOver(*from, folder); err != nil {
			return err
		}
	}
	faults := []error{secrets.Make(folder)}
	if host := getenv("REDIS_HOST"); host != "" {
		faults = append(faults, secrets.MakeRedis(folder, host))
	}
	if host := getenv("POSTGRES_HOST"); host != "" {
		faults = append(faults, secrets.MakeDatabases(folder, cmp.Or(getenv("POSTGRES_ROLES"), "/data"), host))
	}
	if urls := strings.Fields(getenv("LOG_WITNESSES")); len(urls) > 0 {
		faults = append(faults, makeLog(folder, getenv("PUBLIC_URL"), urls))
	}
	if err := errors.Join(faults...); err != nil || !*admin {
		return err
	}
	password, err := secrets.MakeAdminPassword(folder)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: log in as %s, password %s (made at the first start).\n",
		cmp.Or(getenv("PUBLIC_URL"), "The first administrator"), layout.AdminName, password)
	return err
}

// makeLog makes what a log of receipts needs.
func makeLog(folder, site string, witnesses []string) error {
	u, err := url.Parse(site)
	if err != nil || u.Host == "" {
		return errors.New("PUBLIC_URL: the log of receipts has its host in its name")
	}
	return secrets.MakeLog(folder, u.Host, witnesses)
}

// required returns an error that names every variable that is not set.
func required(names []string, getenv func(string) string) error {
	missing := slices.DeleteFunc(names, func(name string) bool { return getenv(name) != "" })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("not set: %s. Set them in the environment or in deploy/.env (deploy/docs/operations.md)", strings.Join(missing, ", "))
}

// change rotates or announces.
func change(folder, rotate string, announce bool) error {
	switch {
	case announce && rotate == "":
		return secrets.AnnounceReceiptKey(folder)
	case rotate == "session-secret" && !announce:
		return secrets.RotateSession(folder)
	case rotate == "receipt-key" && !announce:
		return secrets.RotateReceiptKey(folder)
	default:
		return errors.New("it does not make sense; see setup --help")
	}
}
