package app

import (
	"cmp"
	"context"
	_ "embed" // the help
	"fmt"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/password"
)

// help is what --help prints. The settings are in the README.
//
//go:embed help.txt
var help string

// Process is what the operating system passes to the program.
type Process struct {
	service.Process
	// Passwords is how passwords are hashed. The zero value is the way of AUTH-8;
	// tests take a cheaper one.
	Passwords password.Options
}

// Run carries out the command line and returns the exit code.
func Run(ctx context.Context, p Process) int {
	ctx = audit.With(ctx, audit.Actor{Kind: audit.Operator, Name: service.Operator()})
	return service.Program{Name: "auth", Help: help, Commands: p.commands()}.Run(ctx, p.Process)
}

func (p Process) commands() map[string]service.Command {
	return map[string]service.Command{
		"serve":             p.serve,
		"check":             p.check,
		"migrate":           p.with(p.migrate),
		"healthcheck":       p.healthcheck,
		"user add":          p.userAdd,
		"user list":         p.userList,
		"user passwd":       p.with(p.userPasswd, "NAME"),
		"user role":         p.with(p.userRole, "NAME", "ROLE"),
		"user rename":       p.withUser(p.userRename, "NAME", "NEW"),
		"user disable":      p.withUser(p.userDisable, "NAME"),
		"user enable":       p.withUser(p.userEnable, "NAME"),
		"user last-day":     p.withUser(p.userLastDay, "NAME", "[DATE]"),
		"household name":    p.with(p.householdName, "TEXT"),
		"user delete":       p.withUser(p.userDelete, "NAME"),
		"user import":       p.userImport,
		"user reset-link":   p.withUser(p.userResetLink, "NAME"),
		"setup-link":        p.setupLink,
		"invite add":        p.inviteAdd,
		"invite list":       p.with(p.inviteList),
		"invite revoke":     p.with(p.inviteRevoke, "ID"),
		"app add":           p.appAdd,
		"app set":           p.appSet,
		"app route":         p.appRoute,
		"app list":          p.with(p.appList),
		"app remove":        p.with(p.appRemove, "SLUG"),
		"group add":         p.groupAdd,
		"group list":        p.with(p.groupList),
		"group members":     p.groupMembers,
		"group remove":      p.with(p.groupRemove, "SLUG"),
		"token list":        p.with(p.tokenList, "[NAME]"),
		"token revoke":      p.with(p.tokenRevoke, "ID"),
		"oidc add":          p.oidcAdd,
		"oidc set":          p.oidcSet,
		"oidc secret":       p.oidcSecret,
		"oidc remove":       p.with(p.oidcRemove, "SLUG"),
		"oidc list":         p.with(p.oidcList),
		"oidc preview":      p.with(p.oidcPreview, "SLUG", "NAME"),
		"oidc grants":       p.with(p.oidcGrants, "[NAME]"),
		"oidc end":          p.with(p.oidcEnd, "ID"),
		"oidc keys":         p.with(p.oidcKeys, "[rotate]", "[KID]"),
		"oidc issuer":       p.oidcIssuer,
		"audit":             p.audit,
		"sessions list":     p.with(p.sessionsList, "NAME"),
		"sessions revoke":   p.with(p.sessionsRevoke, "NAME", "[KEY]"),
		"user reset-factor": p.with(p.userResetFactor, "NAME"),
	}
}

func settingsError(err error) error { return fmt.Errorf("the settings are wrong:\n%w", err) }

// healthcheck is "auth healthcheck", which a container runs. It needs no setting
// but ADDR.
func (p Process) healthcheck(ctx context.Context, args []string) error {
	if _, err := service.Parse(service.Flags(), args); err != nil {
		return err
	}
	return service.Healthcheck(ctx, cmp.Or(p.Getenv("ADDR"), config.DefaultAddr))
}
