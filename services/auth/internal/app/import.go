package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/user/userfile"
)

// userImport is "auth user import".
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
	return p.with(ctx, func(s *account.Service) error {
		users, faults, err := s.CheckImport(ctx, file.Records)
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			return p.printFaults(faults, len(file.Records))
		}
		if err := p.printImport(users, file.Ignored); err != nil || !*apply {
			return errors.Join(err, p.printf("nothing was changed; --apply imports them\n"))
		}
		if err := p.audit(ctx, s.Import(ctx, users), "users_imported", "users", len(users)); err != nil {
			return err
		}
		return p.printf("imported: %d\n", len(users))
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

func (p Process) printFaults(faults []account.Fault, records int) error {
	for _, fault := range faults {
		if _, err := fmt.Fprintln(p.Stderr, fault); err != nil {
			return err
		}
	}
	return fmt.Errorf("of %d users none was imported; faults: %d", records, len(faults))
}

// printImport prints the users as they will be, without their hashes.
func (p Process) printImport(users []user.User, ignored []string) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ID\tUSERNAME\tROLE\tCREATED\tDISPLAY NAME")
	for _, u := range users {
		id, created := "new", "now"
		if u.ID != 0 {
			id = fmt.Sprint(u.ID)
		}
		if !u.CreatedAt.IsZero() {
			created = u.CreatedAt.Format(time.RFC3339)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", id, u.Username, u.Role, created, u.DisplayName)
	}
	if err := w.Flush(); err != nil {
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
