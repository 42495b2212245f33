package app

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
)

// shownKey is how many characters of a session's key are shown.
const shownKey = 12

// sessionsList is "auth sessions list".
func (p Process) sessionsList(ctx context.Context, args []string) error {
	words, err := service.Parse(service.Flags(), args, "NAME")
	if err != nil {
		return err
	}
	return p.with(ctx, func(s *account.Service) error {
		infos, err := s.Sessions(ctx, words[0])
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "KEY\tSINCE\tUNTIL\tROLE\tBROWSER")
		for _, i := range infos {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%q\n", i.Key[:shownKey], i.CreatedAt.Format(time.RFC3339), i.ExpiresAt.UTC().Format(time.RFC3339), i.Role, i.UserAgent)
		}
		return w.Flush()
	})
}

// sessionsRevoke is "auth sessions revoke".
func (p Process) sessionsRevoke(ctx context.Context, args []string) error {
	words, err := service.Parse(service.Flags(), args, "NAME", "[KEY]")
	if err != nil {
		return err
	}
	return p.with(ctx, func(s *account.Service) error {
		n := 1
		if words[1] == "" {
			n, err = s.RevokeSessions(ctx, words[0])
		} else {
			err = s.RevokeSession(ctx, words[0], words[1])
		}
		if err := p.audit(ctx, err, "sessions_revoked", "username", words[0], "sessions", n); err != nil {
			return err
		}
		return p.printf("sessions ended: %d\n", n)
	})
}
