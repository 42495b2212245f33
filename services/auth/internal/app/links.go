package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// printLink prints a new link, which is shown this once, and how long it can be used; or it returns err.
func (p Process) printLink(s *stores, l link.Link, token string, err error) error {
	text := s.publicURL + l.Kind.Path(token) + "\nIt can be used once, until " + l.ExpiresAt.Format(time.RFC3339) +
		"."
	if s.publicURL == "" {
		text += "\nPut the address of your household before it, or set PUBLIC_URL."
	}
	return p.done(err, text)
}

// setupLink is "auth setup-link". With --or-login, as starters of the stack call it, it prints
// where to log in if there are users, or settings name the first: the service, which answers already,
// may create that one at this moment.
func (p Process) setupLink(ctx context.Context, args []string) error {
	flags := service.Flags()
	orLogin := flags.Bool("or-login", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	return p.open(ctx, func(s *stores) error {
		logIn := func() error { return p.printf("Log in: %s/pforte/\n", s.publicURL) }
		if *orLogin && p.Getenv("BOOTSTRAP_ADMIN_USERNAME") != "" {
			return logIn()
		}
		l, token, err := s.people.CreateSetupLink(ctx)
		switch {
		case *orLogin && errors.Is(err, user.ErrNotEmpty):
			return logIn()
		case *orLogin && err == nil:
			if err := p.printf("Open this link to set up the household and its first administrator:\n\n"); err != nil {
				return err
			}
		}
		return p.printLink(s, l, token, err)
	})
}

func (p Process) userResetLink(ctx context.Context, s *stores, u user.User, _ []string) error {
	l, token, err := s.people.ResetLink(ctx, session.Session{}, u.ID)
	return p.printLink(s, l, token, err)
}

func (p Process) inviteAdd(ctx context.Context, args []string) error {
	flags := service.Flags()
	admin := flags.Bool("admin", false, "")
	displayName := flags.String("display-name", "", "")
	former := flags.Bool("former", false, "")
	lastDay := flags.String("last-day", "", "")
	words, err := service.Parse(flags, args, "[NAME]")
	if err != nil {
		return err
	}
	invite := people.NewInvite{Username: words[0], Former: *former, DisplayName: *displayName, LastDay: *lastDay}
	if *admin {
		invite.Role = string(user.Admin)
	}
	return p.open(ctx, func(s *stores) error {
		l, token, err := s.people.Invite(ctx, session.Session{}, invite)
		return p.printLink(s, l, token, formerError(err))
	})
}

func (p Process) inviteList(ctx context.Context, s *stores, _ []string) error {
	links, err := s.people.Invites(ctx)
	if err != nil {
		return err
	}
	return p.table("ID\tUSERNAME\tROLE\tUNTIL\tDISPLAY NAME", func(w io.Writer) {
		for _, l := range links {
			_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", l.ID, l.Username, l.Role,
				l.ExpiresAt.Format(time.RFC3339), l.DisplayName)
		}
	})
}

func (p Process) inviteRevoke(ctx context.Context, s *stores, words []string) error {
	id, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return errors.New("the ID is not a number: auth invite list shows them")
	}
	return p.done(s.people.RevokeInvite(ctx, user.Operator, id), "the invite is void")
}

func (p Process) audit(ctx context.Context, args []string) error {
	flags := service.Flags()
	since := flags.Duration("since", 0, "")
	asCSV := flags.Bool("csv", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	var q audit.Query
	if *since > 0 {
		q.From = time.Now().Add(-*since)
	}
	return p.open(ctx, func(s *stores) error {
		if *asCSV {
			return s.audit.WriteCSV(ctx, p.Stdout, q)
		}
		q.Limit = audit.MaxPage
		entries, _, err := s.audit.Entries(ctx, q)
		if err != nil {
			return err
		}
		return p.table("AT\tEVENT\tBY\tABOUT\tADDRESS\tTIMES", func(w io.Writer) {
			for _, e := range entries {
				_, _ = fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\t%d\n", e.At.Format(time.RFC3339), e.Event.Name,
					e.Kind, e.Actor.Name, e.SubjectName, e.IP, e.Count)
			}
		})
	})
}
