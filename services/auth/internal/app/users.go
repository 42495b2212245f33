package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// userAdd is "auth user add".
func (p Process) userAdd(ctx context.Context, args []string) error {
	flags := service.Flags()
	admin := flags.Bool("admin", false, "")
	displayName := flags.String("display-name", "", "")
	color := flags.String("color", user.DefaultAvatarColor, "")
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
	return p.with(ctx, func(s *account.Service) error {
		u, err := s.Add(ctx, account.NewUser{
			Username: words[0], DisplayName: cmp.Or(*displayName, words[0]), Password: pw, AvatarColor: color, Role: &role,
		})
		if err := p.audit(ctx, err, "user_created", "user_id", u.ID, "role", string(u.Role)); err != nil {
			return err
		}
		return p.printf("created %s %s with id %d\n", u.Role, u.Username, u.ID)
	})
}

// userList is "auth user list".
func (p Process) userList(ctx context.Context, args []string) error {
	flags := service.Flags()
	asJSON := flags.Bool("json", false, "")
	if _, err := service.Parse(flags, args); err != nil {
		return err
	}
	return p.with(ctx, func(s *account.Service) error {
		users, err := s.List(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return p.printJSON(users)
		}
		w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "ID\tUSERNAME\tROLE\tCREATED\tDISPLAY NAME")
		for _, u := range users {
			_, _ = fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", u.ID, u.Username, u.Role, u.CreatedAt.Format(time.RFC3339), u.DisplayName)
		}
		return w.Flush()
	})
}

// printJSON prints users as the API lists them.
func (p Process) printJSON(users []user.User) error {
	type entry struct {
		ID          int64     `json:"id"`
		Username    string    `json:"username"`
		DisplayName string    `json:"display_name"`
		AvatarColor string    `json:"avatar_color"`
		Role        user.Role `json:"role"`
		CreatedAt   time.Time `json:"created_at"`
	}
	list := make([]entry, 0, len(users))
	for _, u := range users {
		list = append(list, entry{u.ID, u.Username, u.DisplayName, u.AvatarColor, u.Role, u.CreatedAt})
	}
	encoder := json.NewEncoder(p.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list)
}

// userPasswd is "auth user passwd".
func (p Process) userPasswd(ctx context.Context, args []string) error {
	words, err := service.Parse(service.Flags(), args, "NAME")
	if err != nil {
		return err
	}
	pw, err := p.newPassword(words[0])
	if err != nil {
		return err
	}
	return p.with(ctx, func(s *account.Service) error {
		if err := p.audit(ctx, s.ResetPassword(ctx, words[0], pw), "password_changed", "username", words[0]); err != nil {
			return err
		}
		return p.printf("%s has a new password; all sessions of %s are over\n", words[0], words[0])
	})
}

// userRole is "auth user role".
func (p Process) userRole(ctx context.Context, args []string) error {
	words, err := service.Parse(service.Flags(), args, "NAME", "ROLE")
	if err != nil {
		return err
	}
	return p.with(ctx, func(s *account.Service) error {
		if err := p.audit(ctx, s.SetRole(ctx, words[0], words[1]), "role_changed", "username", words[0], "role", words[1]); err != nil {
			return err
		}
		return p.printf("%s is %s\n", words[0], words[1])
	})
}

// userDelete is "auth user delete".
func (p Process) userDelete(ctx context.Context, args []string) error {
	words, err := service.Parse(service.Flags(), args, "NAME")
	if err != nil {
		return err
	}
	return p.with(ctx, func(s *account.Service) error {
		if err := p.audit(ctx, s.Remove(ctx, words[0]), "user_deleted", "username", words[0]); err != nil {
			return err
		}
		return p.printf("%s is deleted\n", words[0])
	})
}
