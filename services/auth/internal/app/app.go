package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/user/sqlstore"
)

// help is what --help prints. The settings are in the README.
const help = `auth stores users and their sessions, and answers whether a request is logged in.

  auth [serve]                    serve until stopped (SIGTERM, Ctrl-C)
  auth user add NAME              create a user; the password is prompted for
       --admin                      with the role admin
       --display-name TEXT          shown instead of NAME
       --color #RRGGBB              of the avatar
  auth user list [--json]         list all users
  auth user passwd NAME           set a password and end all sessions of the user
  auth user role NAME ROLE        make NAME an admin or a member, in live sessions too
  auth user delete NAME           delete a user and end all sessions of the user
  auth user import --from FILE    show the users that an import from another application
                                  would create: from its SQLite file (table users) or
                                  CSV; - is standard input
       --apply                      and create them, all or none
  auth sessions list NAME         list the live sessions of a user
  auth sessions revoke NAME [KEY] end all sessions of a user, or the one whose key
                                  begins with KEY
  auth migrate                    bring the database up to date (serve does it too)
  auth healthcheck                fail unless the running service is healthy
  auth --version, auth --help

A password is typed at the terminal, twice, or read as one line from standard
input. It is never an argument.

Settings are environment variables. The most important ones:
  SESSION_SECRET   signs the cookies; required by serve; at least 32 characters
  DATABASE_URL     where the users are; default sqlite:data/auth.db
  REDIS_URL        where the sessions are; default redis://127.0.0.1:6379
  ADDR             address to serve on; default :8081
The README of services/auth lists them all. A secret NAME may come as NAME_FILE.

Exit codes: 0 done, 1 failed, 2 wrong command line.
`

// Process is what the operating system passes to the program.
type Process struct {
	service.Process
	// Passwords is how passwords are hashed. The zero value is the contract's way;
	// tests take a cheaper one.
	Passwords password.Options
}

// Run carries out the command line and returns the exit code.
func Run(ctx context.Context, p Process) int {
	return service.Program{Name: "auth", Help: help, Commands: p.commands()}.Run(ctx, p.Process)
}

func (p Process) commands() map[string]service.Command {
	return map[string]service.Command{
		"serve":           p.serve,
		"migrate":         p.migrate,
		"healthcheck":     p.healthcheck,
		"user add":        p.userAdd,
		"user list":       p.userList,
		"user passwd":     p.userPasswd,
		"user role":       p.userRole,
		"user delete":     p.userDelete,
		"user import":     p.userImport,
		"sessions list":   p.sessionsList,
		"sessions revoke": p.sessionsRevoke,
	}
}

// settingsError is the error of settings that cannot be used.
func settingsError(err error) error { return fmt.Errorf("the settings are wrong:\n%w", err) }

// with opens the stores of the settings for a command at the terminal.
func (p Process) with(ctx context.Context, do func(*account.Service) error) (err error) {
	cfg, err := config.LoadStores(p.Getenv)
	if err != nil {
		return settingsError(err)
	}
	log := slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	redis.SetLogger(redisLog{log})
	open, err := openStores(ctx, cfg, p.Passwords, log, newStoreMetrics())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	return do(open.accounts)
}

// audit writes the event of a command to standard error, in the form in which
// the service writes those of requests; the actor is the operating system's user.
// It returns err. A command that failed has no event, unless only the end of the
// sessions is still to come.
func (p Process) audit(ctx context.Context, err error, event string, attrs ...any) error {
	if err != nil && !errors.Is(err, account.ErrPending) {
		return err
	}
	log, logErr := logging.New(p.Stderr, "info")
	if logErr != nil {
		return errors.Join(err, logErr)
	}
	log.InfoContext(ctx, "audit", append([]any{"event", event, "actor", "cli", "os_user", service.Operator()}, attrs...)...)
	return err
}

func (p Process) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(p.Stdout, format, args...)
	return err
}

// migrate is "auth migrate".
func (p Process) migrate(ctx context.Context, args []string) error {
	if _, err := service.Parse(service.Flags(), args); err != nil {
		return err
	}
	cfg, err := config.LoadStores(p.Getenv)
	if err != nil {
		return settingsError(err)
	}
	migrations, err := sqlstore.Migrations()
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	db, err := sqldb.Open(ctx, cfg.DatabaseURL, migrations)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	return p.printf("the database is up to date\n")
}

// healthcheck is "auth healthcheck", which a container runs. It needs no setting
// but ADDR.
func (p Process) healthcheck(ctx context.Context, args []string) error {
	if _, err := service.Parse(service.Flags(), args); err != nil {
		return err
	}
	addr := p.Getenv("ADDR")
	if addr == "" {
		addr = config.DefaultAddr
	}
	return service.Healthcheck(ctx, addr)
}
