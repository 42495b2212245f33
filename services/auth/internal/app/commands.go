package app

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/term"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/httpapi"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/user/userfile"
)

// with returns a command without flags, which do carries out on the stores. words has one for each of names, or "".
//
// With names, a request for help ends with 2, though it prints the help: a script whose word is "--help" must not
// believe that the command was carried out.
func (p Process) with(do func(ctx context.Context, s *stores, words []string) error, names ...string) service.Command {
	return func(ctx context.Context, args []string) error {
		words, err := service.Parse(service.Flags(), args, names...)
		if errors.Is(err, flag.ErrHelp) && len(names) > 0 {
			return service.ExitError{Err: err, Code: 2}
		}
		if err != nil {
			return err
		}
		return p.open(ctx, func(s *stores) error { return do(ctx, s, words) })
	}
}

// withUser is with for a command about the user u whose name is its first word. words are the others.
func (p Process) withUser(
	do func(ctx context.Context, s *stores, u user.User, words []string) error, names ...string,
) service.Command {
	return p.with(func(ctx context.Context, s *stores, words []string) error {
		u, err := s.people.ByUsername(ctx, words[0])
		if err != nil {
			return err
		}
		return do(ctx, s, u, words[1:])
	}, names...)
}

// open opens the stores of the settings for a command.
func (p Process) open(ctx context.Context, do func(*stores) error) (err error) {
	cfg, err := config.LoadStores(p.Getenv)
	if err != nil {
		return settingsError(err)
	}
	data, err := config.LoadData(p.Getenv)
	if err != nil {
		return settingsError(err)
	}
	log := slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	events, err := p.log()
	if err != nil {
		return err
	}
	redis.SetLogger(redisLog{log})
	open, err := openStores(ctx, cfg, p.Passwords,
		rules{policy: policy.Options{PlainHTTP: !cfg.Secure()}, oidc: newOIDCRules(cfg, data, false)},
		func(ctx context.Context, e audit.Entry) { audit.Log(ctx, events, e) }, log, newStoreMetrics(nil))
	if err != nil {
		return err
	}
	defer func() {
		open.audit.Drain()
		err = errors.Join(err, open.Close())
	}()
	return do(open)
}

func (p Process) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(p.Stdout, format, args...)
	return err
}

// table prints rows below a head, in columns.
func (p Process) table(head string, rows func(io.Writer)) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, head)
	rows(w)
	return w.Flush()
}

// done prints text about a change that a command made, or returns err, the error of the change.
func (p Process) done(err error, text string) error {
	if err != nil {
		return err
	}
	return p.printf("%s\n", text)
}

// log returns the log of what commands did, in the form in which the service logs requests.
func (p Process) log() (*slog.Logger, error) { return logging.New(p.Stderr, "info") }

// logEvent logs what a command did as one event, in the form of the events of the audit.
func (p Process) logEvent(ctx context.Context, event string, attrs ...any) error {
	log, err := p.log()
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "audit", append([]any{"event", event, "actor", "cli", "os_user", service.Operator()},
		attrs...)...)
	return nil
}

// migrate is "auth migrate". Opening the database brings it up to date.
func (p Process) migrate(context.Context, *stores, []string) error {
	return p.printf("the database is up to date\n")
}

func (p Process) userAdd(ctx context.Context, args []string) error {
	flags := service.Flags()
	admin := flags.Bool("admin", false, "")
	displayName := flags.String("display-name", "", "")
	color := flags.String("color", user.DefaultAvatarColor, "")
	former := flags.Bool("former", false, "")
	words, err := service.Parse(flags, args, "NAME")
	if err != nil {
		return err
	}
	if err := user.CheckUsername(words[0]); err != nil { // before a password is typed
		return err
	}
	role := string(user.Member)
	if *admin {
		role = string(user.Admin)
	}
	pw, err := p.newPassword(words[0])
	if err != nil {
		return err
	}
	return p.open(ctx, func(s *stores) error {
		if !*former {
			if err := s.people.CheckFormer(ctx, words[0]); err != nil {
				return formerError(err)
			}
		}
		u, err := s.people.Add(ctx, people.NewUser{
			Username: words[0], DisplayName: cmp.Or(*displayName, words[0]), Password: pw, AvatarColor: color,
			Role: &role,
		})
		text := fmt.Sprintf("created %s %s with id %d", u.Role, u.Username, u.ID)
		return p.done(err, text)
	})
}

// formerError names the flag that allows what user.ErrUsernameFormer refuses.
func formerError(err error) error {
	if errors.Is(err, user.ErrUsernameFormer) {
		return fmt.Errorf("%w: applications may take the new one for the same person; --former allows it", err)
	}
	return err
}

func (p Process) userList(ctx context.Context, args []string) error {
	flags := service.Flags()
	asJSON := flags.Bool("json", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	return p.open(ctx, func(s *stores) error {
		users, err := s.people.List(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			encoder := json.NewEncoder(p.Stdout)
			encoder.SetIndent("", "  ")
			return encoder.Encode(httpapi.Listed(users))
		}
		return p.table("ID\tUSERNAME\tROLE\tCREATED\tDISPLAY NAME", func(w io.Writer) {
			for _, u := range users {
				_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", u.ID, u.Username, u.Role,
					u.CreatedAt.Format(time.RFC3339), u.DisplayName)
			}
		})
	})
}

func (p Process) userPasswd(ctx context.Context, s *stores, words []string) error {
	name := words[0]
	pw, err := p.newPassword(name)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s has a new password; all sessions of %s are over", name, name)
	return p.done(s.accounts.ResetPassword(ctx, name, pw), text)
}

func (p Process) userRole(ctx context.Context, s *stores, words []string) error {
	name, role := words[0], words[1]
	return p.done(s.people.SetRole(ctx, name, role), name+" is "+role)
}

func (p Process) userRename(ctx context.Context, s *stores, u user.User, words []string) error {
	renamed, err := s.people.UpdateMember(ctx, session.Session{}, u.ID, people.MemberChange{Username: &words[0]})
	return p.done(err, u.Username+" is "+renamed.Username)
}

func (p Process) userDisable(ctx context.Context, s *stores, u user.User, _ []string) error {
	text := fmt.Sprintf("%s is disabled; all sessions of %s are over", u.Username, u.Username)
	return p.done(s.people.Disable(ctx, session.Session{}, u.ID), text)
}

func (p Process) userEnable(ctx context.Context, s *stores, u user.User, _ []string) error {
	return p.done(s.people.Enable(ctx, session.Session{}, u.ID), u.Username+" is enabled")
}

func (p Process) userLastDay(ctx context.Context, s *stores, u user.User, words []string) error {
	u, err := s.people.UpdateMember(ctx, session.Session{}, u.ID, people.MemberChange{LastDay: &words[0]})
	text := u.Username + " has no last day"
	if day := s.people.LastDay(u); day != "" {
		text = "the last day of " + u.Username + " is " + day
	}
	return p.done(err, text)
}

func (p Process) householdName(ctx context.Context, s *stores, words []string) error {
	return p.done(s.people.NameHousehold(ctx, user.Operator, words[0]), "the household has its name")
}

func (p Process) userResetFactor(ctx context.Context, s *stores, words []string) error {
	text := fmt.Sprintf("%s has no second factor and no passkeys; all sessions of %s are over", words[0], words[0])
	return p.done(s.accounts.SecondFactor.ResetOf(ctx, words[0]), text)
}

func (p Process) userDelete(ctx context.Context, s *stores, u user.User, _ []string) error {
	return p.done(s.people.Delete(ctx, session.Session{}, u.ID), u.Username+" is deleted")
}

func (p Process) sessionsList(ctx context.Context, s *stores, words []string) error {
	infos, err := s.accounts.Sessions(ctx, words[0])
	if err != nil {
		return err
	}
	return p.table("KEY\tSINCE\tUNTIL\tROLE\tBROWSER", func(w io.Writer) {
		for _, i := range infos {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%q\n", i.Key[:shownKey], i.CreatedAt.Format(time.RFC3339),
				i.ExpiresAt.Format(time.RFC3339), i.Role, i.UserAgent)
		}
	})
}

// shownKey is how many characters of a session's key are shown.
const shownKey = 12

func (p Process) sessionsRevoke(ctx context.Context, s *stores, words []string) error {
	name, key := words[0], words[1]
	n, err := 1, error(nil)
	if key == "" {
		n, err = s.accounts.RevokeSessionsOf(ctx, name)
	} else {
		err = s.accounts.RevokeSession(ctx, name, key)
	}
	if err == nil || errors.Is(err, account.ErrPending) {
		err = errors.Join(err, p.logEvent(ctx, "sessions_revoked", "username", name, "sessions", n))
	}
	return p.done(err, fmt.Sprintf("sessions ended: %d", n))
}

// maxPasswordLine bounds a password on standard input, in bytes: more than 1024 characters can take.
const maxPasswordLine = 8 << 10

// newPassword prompts for a password twice at a terminal, and reads the first
// line of any other standard input.
func (p Process) newPassword(username string) (string, error) {
	if f, ok := p.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return p.promptTwice(int(f.Fd()), username)
	}
	line, err := bufio.NewReader(io.LimitReader(p.Stdin, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read password: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("no password on standard input")
	}
	return line, nil
}

func (p Process) promptTwice(fd int, username string) (string, error) {
	first, err := p.prompt(fd, "Password for "+username+": ")
	if err != nil {
		return "", err
	}
	second, err := p.prompt(fd, "The same again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two passwords differ")
	}
	return first, nil
}

func (p Process) prompt(fd int, text string) (string, error) {
	_, _ = io.WriteString(p.Stderr, text)
	typed, err := term.ReadPassword(fd)
	_, _ = io.WriteString(p.Stderr, "\n")
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	return string(typed), nil
}

func (p Process) userImport(ctx context.Context, args []string) error {
	flags := service.Flags()
	from := flags.String("from", "", "")
	apply := flags.Bool("apply", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	if *from == "" {
		return service.UsageError("--from FILE is missing")
	}
	file, err := p.readUsers(ctx, *from)
	if err != nil {
		return fmt.Errorf("read users: %w", err)
	}
	return p.open(ctx, func(s *stores) error {
		users, faults, err := s.people.CheckImport(ctx, file.Records)
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			for _, fault := range faults {
				_, _ = fmt.Fprintln(p.Stderr, fault)
			}
			return fmt.Errorf("of %d users none was imported; faults: %d", len(file.Records), len(faults))
		}
		if err := p.printImport(users, file.Ignored); err != nil || !*apply {
			return errors.Join(err, p.printf("nothing was changed; --apply imports them\n"))
		}
		if err := s.people.Import(ctx, users); err != nil {
			return err
		}
		return p.done(p.logEvent(ctx, "users_imported", "users", len(users)), fmt.Sprintf("imported: %d", len(users)))
	})
}

// readUsers reads a file, or standard input for "-".
func (p Process) readUsers(ctx context.Context, from string) (file userfile.File, err error) {
	if from != "-" {
		return userfile.Read(ctx, from)
	}
	// SQLite reads files only.
	dir, err := os.MkdirTemp("", "auth-import-")
	if err != nil {
		return userfile.File{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copied, err := os.Create(dir + "/users") //nolint:gosec // in a folder of our own
	if err != nil {
		return userfile.File{}, err
	}
	_, err = io.Copy(copied, io.LimitReader(p.Stdin, userfile.MaxBytes+1))
	if err := errors.Join(err, copied.Close()); err != nil {
		return userfile.File{}, err
	}
	return userfile.Read(ctx, copied.Name())
}

// printImport prints the users as they will be, without their hashes.
func (p Process) printImport(users []user.User, ignored []string) error {
	err := p.table("ID\tUSERNAME\tROLE\tCREATED\tDISPLAY NAME", func(w io.Writer) {
		for _, u := range users {
			id := "new"
			if u.ID != 0 {
				id = fmt.Sprint(u.ID)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", id, u.Username, u.Role, when(u.CreatedAt, "now"),
				u.DisplayName)
		}
	})
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		if err := p.printf("passed over: %s\n", strings.Join(ignored, ", ")); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(users, func(u user.User) bool { return u.Role == user.Admin }) {
		return p.printf("none of them is an admin\n")
	}
	return nil
}
