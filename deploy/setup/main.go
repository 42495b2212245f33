// Command setup makes the secrets of a stack where they are not there yet, and
// replaces or revokes them. See `setup --help`.
package main

import (
	"cmp"
	_ "embed" // the help
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/pkg/receipt"
)

//go:embed usage.txt
var usage string

var version string //nolint:gochecknoglobals // -ldflags -X

func main() {
	if err := run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}

func run(args []string, getenv func(string) string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("setup", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	admin := flags.Bool("admin", false, "")
	from := flags.String("from", "", "")
	require := flags.String("require", "", "")
	var h household
	flags.BoolVar(&h.only, "household", false, "")
	flags.StringVar(&h.env, "env", "", "")
	var c changes
	flags.StringVar(&c.rotate, "rotate", "", "")
	flags.BoolVar(&c.announce, "announce", false, "")
	flags.StringVar(&c.revoke, "revoke", "", "")
	flags.StringVar(&c.logged, "logged", "", "")
	flags.StringVar(&c.dataKey, "data-key", "", "")
	flags.StringVar(&c.log, "log", "", "")
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
	if c != (changes{}) {
		return c.carryOut(folder, getenv, in, out)
	}
	if h.env != "" && !h.only {
		return errors.New("-env comes with -household")
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
	makeAll := secrets.Make
	if h.only {
		makeAll = secrets.MakeHousehold
	}
	faults := []error{makeAll(folder)}
	if host := cmp.Or(getenv("REDIS_HOST"), h.redis()); host != "" {
		faults = append(faults, secrets.MakeRedis(folder, host))
	}
	if host := getenv("POSTGRES_HOST"); host != "" {
		faults = append(faults, secrets.MakeDatabases(folder, roles(getenv), host))
	}
	if urls := strings.Fields(getenv("LOG_WITNESSES")); len(urls) > 0 {
		faults = append(faults, makeLog(folder, getenv("PUBLIC_URL"), urls))
	}
	if h.env != "" {
		faults = append(faults, h.write(folder, getenv("DOMAIN"), out))
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

// makeLog makes what a log of receipts needs, which has the host of the URL site in its name.
func makeLog(folder, site string, witnesses []string) error {
	u, err := url.Parse(site)
	if err != nil || u.Host == "" {
		return errors.New("PUBLIC_URL: the log of receipts has its host in its name")
	}
	return secrets.MakeLog(folder, u.Host, witnesses)
}

// required returns an error that names every variable that is not set. Of those in A|B one is enough.
func required(names []string, getenv func(string) string) error {
	isSet := func(name string) bool { return getenv(name) != "" }
	missing := slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(strings.Split(name, "|"), isSet)
	})
	if len(missing) == 0 {
		return nil
	}
	for i, name := range missing {
		missing[i] = strings.ReplaceAll(name, "|", " or ")
	}
	return fmt.Errorf("not set: %s. Set them in the environment or in .env beside the first compose file",
		strings.Join(missing, ", "))
}

// roles returns the folder with what Postgres reads.
func roles(getenv func(string) string) string { return cmp.Or(getenv("POSTGRES_ROLES"), "/data") }

// changes are the options that change an installation's secrets or log. Only one may be given, but
// logged beside revoke.
type changes struct {
	rotate, revoke, logged, dataKey, log string
	announce                             bool
}

func (c changes) carryOut(folder string, getenv func(string) string, in io.Reader, out io.Writer) error {
	switch c {
	case changes{announce: true}:
		return secrets.AnnounceReceiptKey(folder)
	case changes{rotate: "session-secret"}:
		return secrets.RotateSession(folder)
	case changes{rotate: "data-key"}:
		return secrets.RotateDataKey(folder, time.Now())
	case changes{rotate: "receipt-key"}:
		return secrets.RotateReceiptKey(folder)
	case changes{rotate: "redis"}:
		return secrets.RotateRedis(folder)
	case changes{rotate: "databases"}:
		return secrets.RotateDatabases(folder, roles(getenv))
	case changes{revoke: c.revoke, logged: c.logged}:
		if c.revoke == "" {
			return errUsage
		}
		cutOff, err := c.cutOff()
		if err != nil {
			return err
		}
		return secrets.RevokeReceiptKey(folder, c.revoke, cutOff, time.Now())
	case changes{dataKey: c.dataKey}:
		key, err := readKey(c.dataKey, in)
		if err != nil {
			return err
		}
		return secrets.PutDataKey(folder, key)
	case changes{log: c.log}:
		vkey, err := secrets.AddLog(folder, c.log)
		if err == nil {
			_, err = fmt.Fprintln(out, vkey)
		}
		return err
	default:
		return errUsage
	}
}

var errUsage = errors.New("invalid arguments; see setup --help")

// cutOff returns the indexes of the log's generations below which a revoked key's receipts
// stay valid; nil where none is named.
func (c changes) cutOff() (*receipt.Logged, error) {
	var all []receipt.Logged
	for _, field := range strings.Fields(c.logged) {
		at := strings.LastIndexByte(field, ':') // the origin's host may have a port
		if at <= 0 {
			return nil, errors.New("-logged: it is ORIGIN:INDEX, as in home.example.org/v1/log/1:12000")
		}
		all = append(all, receipt.Logged{Origin: field[:at], Before: field[at+1:]})
	}
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // without a cut-off
	}
	all[0].Earlier = all[1:]
	return &all[0], nil
}

// readKey returns the key in a file, or in standard input if file is "-". It reads 1 KB at most.
// secrets.NewDataKey is returned as it is.
func readKey(file string, in io.Reader) (string, error) {
	if file == secrets.NewDataKey {
		return file, nil
	}
	if file != "-" {
		f, err := os.Open(file) //nolint:gosec // the operator's
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 1<<10))
	return string(text), err
}
