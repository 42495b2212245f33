package app

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// applicationFlags returns the flags of "auth app add" and "auth app set", and the change that parsing them makes. What
// is not on the command line is nil in it.
func applicationFlags() (*flag.FlagSet, *policy.ApplicationChange) {
	flags := service.Flags()
	var c policy.ApplicationChange
	texts := map[string]**string{"name": &c.Name, "description": &c.Description, "url": &c.URL, "color": &c.Color}
	for name, field := range texts {
		flags.Func(name, "", func(s string) error { *field = &s; return nil })
	}
	flags.Func("rule", "", func(s string) error {
		rule, group, _ := strings.Cut(s, ":")
		c.Rule, c.Group = &rule, &group
		return nil
	})
	for name, field := range map[string]**bool{"second-factor": &c.SecondFactor, "tokens": &c.Tokens} {
		flags.BoolFunc(name, "", func(s string) error {
			b, err := strconv.ParseBool(s)
			*field = &b
			return err
		})
	}
	flags.Func("position", "", func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return application.ErrPosition
		}
		c.Position = &n
		return nil
	})
	return flags, &c
}

func (p Process) appAdd(ctx context.Context, args []string) error {
	flags, c := applicationFlags()
	words, err := service.Parse(flags, args, "SLUG", "URL")
	if err != nil {
		return err
	}
	if c.URL != nil {
		return service.UsageError("the address is there twice")
	}
	n := policy.NewApplication{
		Slug: words[0], URL: words[1], Name: orZero(c.Name), Description: orZero(c.Description), Rule: orZero(c.Rule),
		Group:        orZero(c.Group),
		SecondFactor: orZero(c.SecondFactor), Tokens: orZero(c.Tokens), Color: orZero(c.Color),
		Position: orZero(c.Position),
	}
	return p.open(ctx, func(s *stores) error {
		err := s.policy.CreateApplication(ctx, session.Session{}, n)
		return p.done(err, n.Slug+" is an application")
	})
}

func orZero[T any](value *T) (v T) {
	if value != nil {
		v = *value
	}
	return v
}

func (p Process) appSet(ctx context.Context, args []string) error {
	flags, change := applicationFlags()
	words, err := service.Parse(flags, args, "SLUG")
	if err != nil {
		return err
	}
	if flags.NFlag() == 0 {
		return service.UsageError("nothing to change")
	}
	return p.open(ctx, func(s *stores) error {
		err := s.policy.ChangeApplication(ctx, session.Session{}, words[0], *change)
		return p.done(err, words[0]+" is changed")
	})
}

func (p Process) appRoute(ctx context.Context, args []string) error {
	flags := service.Flags()
	var c policy.RouteChange
	flags.BoolVar(&c.Strip, "strip", false, "")
	flags.StringVar(&c.UserHeader, "user-header", "", "")
	flags.Func("pin", "", func(s string) error { c.Pin = &s; return nil })
	remove := flags.Bool("remove", false, "")
	words, err := service.Parse(flags, args, "SLUG", "[ADDRESS]")
	if err != nil {
		return err
	}
	slug := words[0]
	c.Upstream = words[1]
	if *remove != (c.Upstream == "") || *remove && flags.NFlag() > 1 {
		return service.UsageError("either ADDRESS or --remove")
	}
	return p.open(ctx, func(s *stores) error {
		if *remove {
			return p.done(s.policy.RemoveRoute(ctx, session.Session{}, slug), slug+" has no internal address any more")
		}
		err := s.policy.SetRoute(ctx, session.Session{}, slug, c)
		if errors.Is(err, application.ErrUpstreamBlocked) {
			return fmt.Errorf("%w: loopback and public addresses are named in the proxy's setting APPS_TO", err)
		}
		return p.done(err, slug+" is at "+c.Upstream)
	})
}

func (p Process) appList(ctx context.Context, s *stores, _ []string) error {
	apps, err := s.policy.Applications(ctx)
	if err != nil {
		return err
	}
	return p.table("SLUG\tURL\tRULE\tSECOND FACTOR\tTOKENS\tINTERNAL ADDRESS\tNAME", func(w io.Writer) {
		for _, a := range apps {
			rule := string(a.Rule)
			if a.Group != "" {
				rule += ":" + a.Group
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%t\t%t\t%s\t%s\n", a.Slug, a.URL, rule, a.SecondFactor, a.Tokens,
				cmp.Or(a.Route.Upstream, "-"), a.Name)
		}
	})
}

func (p Process) appRemove(ctx context.Context, s *stores, words []string) error {
	err := s.policy.RemoveApplication(ctx, session.Session{}, words[0])
	return p.done(err, words[0]+" is no application any more")
}

func (p Process) groupAdd(ctx context.Context, args []string) error {
	flags := service.Flags()
	name := flags.String("name", "", "")
	words, err := service.Parse(flags, args, "SLUG")
	if err != nil {
		return err
	}
	return p.open(ctx, func(s *stores) error {
		err := s.policy.CreateGroup(ctx, session.Session{}, words[0], *name)
		return p.done(err, words[0]+" is a group")
	})
}

func (p Process) groupRemove(ctx context.Context, s *stores, words []string) error {
	err := s.policy.RemoveGroup(ctx, session.Session{}, words[0])
	return p.done(err, words[0]+" is no group any more")
}

func (p Process) groupList(ctx context.Context, s *stores, _ []string) error {
	groups, err := s.policy.Groups(ctx)
	if err != nil {
		return err
	}
	return p.table("SLUG\tNAME\tMEMBERS", func(w io.Writer) {
		for _, g := range groups {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", g.Slug, g.Name, strings.Join(g.Members, " "))
		}
	})
}

// groupMembers is "auth group members". It lists the members, unless it changes one.
func (p Process) groupMembers(ctx context.Context, args []string) error {
	flags := service.Flags()
	add := flags.String("add", "", "")
	remove := flags.String("remove", "", "")
	words, err := service.Parse(flags, args, "SLUG")
	if err != nil {
		return err
	}
	if *add != "" && *remove != "" {
		return service.UsageError("--add and --remove are two commands")
	}
	slug := words[0]
	return p.open(ctx, func(s *stores) error {
		switch {
		case *add != "":
			err := s.policy.SetMember(ctx, slug, *add, true)
			return p.done(err, *add+" is in "+slug)
		case *remove != "":
			err := s.policy.SetMember(ctx, slug, *remove, false)
			return p.done(err, *remove+" is not in "+slug)
		}
		groups, err := s.policy.Groups(ctx)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if g.Slug == slug {
				return p.printf("%s", strings.Join(append(g.Members, ""), "\n"))
			}
		}
		return application.ErrGroupNotFound
	})
}

// tokenList is "auth token list": those of a user, or all.
func (p Process) tokenList(ctx context.Context, s *stores, words []string) error {
	list := s.policy.AllTokens
	if words[0] != "" {
		list = func(ctx context.Context) ([]token.Token, error) { return s.policy.TokensFor(ctx, words[0]) }
	}
	tokens, err := list(ctx)
	if err != nil {
		return err
	}
	return p.table("ID\tUSERNAME\tTOKEN\tAPPLICATIONS\tACCESS\tCREATED\tUNTIL\tLAST USED\tNAME", func(w io.Writer) {
		for _, t := range tokens {
			mode, until := "read and write", when(t.ExpiresAt, "for ever")
			if t.ReadOnly {
				mode = "read only"
			}
			if !t.RevokedAt.IsZero() {
				until = "revoked " + t.RevokedAt.Format(time.RFC3339)
			}
			_, _ = fmt.Fprintf(w, "%d\t%s\t%s…\t%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.Username, t.Shown,
				strings.Join(t.Applications, ","), mode,
				t.CreatedAt.Format(time.RFC3339), until, when(t.LastUsedAt, "never"), t.Name)
		}
	})
}

// when returns an instant, or other for the zero time.
func when(at time.Time, other string) string {
	if at.IsZero() {
		return other
	}
	return at.Format(time.RFC3339)
}

func (p Process) tokenRevoke(ctx context.Context, s *stores, words []string) error {
	id, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return errors.New("the ID is not a number: auth token list shows them")
	}
	return p.done(s.policy.RevokeToken(ctx, user.Operator, id), "the app token is revoked")
}
