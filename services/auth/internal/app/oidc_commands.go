package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// clientFlags returns the flags of "auth oidc add" and "auth oidc set". The returned function changes a client by
// those that are on the command line.
func clientFlags() (*flag.FlagSet, func(*oidc.Client)) {
	flags := service.Flags()
	var changes []func(*oidc.Client)
	text := func(name string, set func(c *oidc.Client, value string)) {
		flags.Func(name, "", func(value string) error {
			changes = append(changes, func(c *oidc.Client) { set(c, value) })
			return nil
		})
	}
	is := func(name string, set func(c *oidc.Client, value bool)) {
		flags.BoolFunc(name, "", func(s string) error {
			value, err := strconv.ParseBool(s)
			changes = append(changes, func(c *oidc.Client) { set(c, value) })
			return err
		})
	}
	// Those of the command line are all that the client has.
	addresses := func(name string, of func(c *oidc.Client) *[]string) {
		var all []string
		text(name, func(c *oidc.Client, value string) {
			if value != "" {
				all = append(all, value)
			}
			*of(c) = all
		})
	}
	text("client-id", func(c *oidc.Client, value string) { c.ID = value })
	text("alg", func(c *oidc.Client, value string) { c.Alg = oidc.Alg(value) })
	text("pkce", func(c *oidc.Client, value string) { c.PKCE = oidc.PKCE(value) })
	text("groups", func(c *oidc.Client, value string) { c.Groups = oidc.GroupClaim(value) })
	text("logout-uri", func(c *oidc.Client, value string) { c.LogoutURI = value })
	is("public", func(c *oidc.Client, value bool) { c.Public = value })
	is("email", func(c *oidc.Client, value bool) { c.Email = value })
	is("offline", func(c *oidc.Client, value bool) { c.Offline = value })
	is("ask", func(c *oidc.Client, value bool) { c.Ask = value })
	is("device", func(c *oidc.Client, value bool) { c.Device = value })
	addresses("redirect", func(c *oidc.Client) *[]string { return &c.Redirects })
	addresses("after-logout", func(c *oidc.Client) *[]string { return &c.AfterLogout })
	return flags, func(c *oidc.Client) {
		for _, change := range changes {
			change(c)
		}
	}
}

func (p Process) oidcAdd(ctx context.Context, args []string) error {
	flags, change := clientFlags()
	words, err := service.Parse(flags, args, "SLUG")
	if err != nil {
		return err
	}
	return p.open(ctx, func(s *stores) error {
		c := oidc.Client{Slug: words[0], ID: words[0], Email: true}
		change(&c)
		secret, err := s.oidc.Create(ctx, session.Session{}, c)
		if err != nil {
			return err
		}
		return p.printClient(s, c.ID, secret)
	})
}

// printClient prints what is entered in the application.
func (p Process) printClient(s *stores, id, secret string) error {
	shown := secret
	if shown == "" {
		shown = "(none: it is public, and uses PKCE)"
	}
	return p.printf("issuer         %s\nclient id      %s\nclient secret  %s\n", s.oidc.Issuer(), id, shown)
}

func (p Process) oidcSet(ctx context.Context, args []string) error {
	flags, change := clientFlags()
	words, err := service.Parse(flags, args, "SLUG")
	if err != nil {
		return err
	}
	if flags.NFlag() == 0 {
		return service.UsageError("nothing to change")
	}
	return p.open(ctx, func(s *stores) error {
		err := s.oidc.Change(ctx, session.Session{}, words[0], func(c *oidc.Client) error { change(c); return nil })
		return p.done(err, words[0]+" is changed")
	})
}

func (p Process) oidcSecret(ctx context.Context, args []string) error {
	flags := service.Flags()
	remove := flags.Int64("remove", 0, "")
	words, err := service.Parse(flags, args, "SLUG")
	if err != nil {
		return err
	}
	return p.open(ctx, func(s *stores) error {
		if *remove != 0 {
			err := s.oidc.RemoveSecret(ctx, session.Session{}, words[0], *remove)
			return p.done(err, "the secret does not count any more")
		}
		secret, err := s.oidc.AddSecret(ctx, session.Session{}, words[0])
		if errors.Is(err, oidc.ErrManySecret) {
			return fmt.Errorf("%w: --remove ID removes one, and auth oidc list shows them", err)
		}
		if err != nil {
			return err
		}
		c, err := s.oidc.Client(ctx, words[0])
		if err != nil {
			return err
		}
		return p.printClient(s, c.ID, secret)
	})
}

func (p Process) oidcRemove(ctx context.Context, s *stores, words []string) error {
	err := s.oidc.Remove(ctx, session.Session{}, words[0])
	return p.done(err, words[0]+" logs nobody in by OpenID Connect any more")
}

func (p Process) oidcList(ctx context.Context, s *stores, _ []string) error {
	clients, err := s.oidc.Clients(ctx)
	if err != nil {
		return err
	}
	return p.table("SLUG\tCLIENT ID\tALG\tPKCE\tGROUPS\tSECRETS\tADDRESSES", func(w io.Writer) {
		for _, c := range clients {
			pkce, secrets := string(c.PKCE), make([]string, len(c.Secrets))
			if c.Public {
				pkce = string(oidc.Required)
			}
			for i, secret := range c.Secrets {
				secrets[i] = fmt.Sprintf("%d:…%s", secret.ID, secret.Hint)
			}
			if c.Public {
				secrets = []string{"public"}
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Slug, c.ID, c.Alg, pkce, c.Groups,
				strings.Join(secrets, " "), strings.Join(c.Redirects, " "))
		}
	})
}

// oidcPreview is "auth oidc preview": what an application would learn of a user.
func (p Process) oidcPreview(ctx context.Context, s *stores, words []string) error {
	claims, err := s.oidc.Preview(ctx, words[0], words[1])
	if claims == nil {
		return err
	}
	encoder := json.NewEncoder(p.Stdout)
	encoder.SetIndent("", "  ")
	return errors.Join(encoder.Encode(claims), err)
}

// oidcGrants is "auth oidc grants": those of a user, or all.
func (p Process) oidcGrants(ctx context.Context, s *stores, words []string) error {
	connections, err := s.oidc.ConnectionsOf(ctx, words[0])
	if err != nil {
		return err
	}
	return p.table("ID\tUSERNAME\tAPPLICATION\tSINCE\tLAST USED\tOFFLINE\tSCOPES", func(w io.Writer) {
		for _, c := range connections {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%t\t%s\n", c.ID, c.Username, c.Slug,
				c.CreatedAt.Format(time.RFC3339), c.LastUsedAt.Format(time.RFC3339), c.Offline,
				strings.Join(c.Scopes, " "))
		}
	})
}

func (p Process) oidcEnd(ctx context.Context, s *stores, words []string) error {
	return p.done(s.oidc.Disconnect(ctx, user.Operator, words[0]), "the login at the application has ended")
}

// oidcKeys is "auth oidc keys", "auth oidc keys rotate" and "auth oidc keys revoke KID".
func (p Process) oidcKeys(ctx context.Context, s *stores, words []string) error {
	switch {
	case words[0] == "rotate" && words[1] == "":
		return p.done(s.oidc.RotateKeys(ctx), "the next keys are published, and sign in 24 hours")
	case words[0] == "revoke" && words[1] != "":
		return p.done(s.oidc.RevokeKey(ctx, words[1]), "the key verifies nothing any more")
	case words[0] != "":
		return service.UsageError("either rotate, or revoke KID")
	}
	keys, err := s.oidc.KeyList(ctx)
	if err != nil {
		return err
	}
	return p.table("KID\tALG\tSTATE\tSINCE", func(w io.Writer) {
		for _, k := range keys {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.ID, k.Alg, k.State, k.Since.Format(time.RFC3339))
		}
	})
}

func (p Process) oidcIssuer(ctx context.Context, args []string) error {
	flags := service.Flags()
	take := flags.Bool("take", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	return p.open(ctx, func(s *stores) error {
		if *take {
			return p.done(s.oidc.TakeIssuer(ctx, session.Session{}), "the issuer is "+s.oidc.Issuer())
		}
		written, err := s.oidc.WrittenIssuer(ctx)
		if err != nil {
			return err
		}
		return p.printf("written down  %s\nof PUBLIC_URL %s\n", written, s.oidc.Issuer())
	})
}
