package app

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/config"
	"github.com/pforte/pforte/services/auth/internal/password"
)

// help is what --help prints. The settings are in the README.
const help = `auth stores users and their sessions, and answers whether a request is logged in.

  auth [serve]                    serve until stopped (SIGTERM, Ctrl-C)
  auth user add NAME              create a user; the password is prompted for
       --admin                      with the role admin
       --display-name TEXT          shown instead of NAME
       --color #RRGGBB              of the avatar
       --former                     NAME may be that of a deleted user
  auth user list [--json]         list all users
  auth user passwd NAME           set a password and end all sessions of the user
  auth user role NAME ROLE        make NAME an admin or a member, in live sessions too
  auth user rename NAME NEW       give NAME another username; nobody else gets NAME
  auth user disable NAME          close the account of NAME until enable
  auth user enable NAME
  auth user last-day NAME [DATE]  make NAME a guest until the end of DATE (YYYY-MM-DD), or
                                  without DATE a member without end
  auth user reset-factor NAME     remove the second factor and passkeys of NAME and end
                                  all their sessions; without a password they need a
                                  reset-link then
  auth user delete NAME           delete a user and end all sessions of the user
  auth user import --from FILE    show the users that an import from another application
                                  would create: from its SQLite file (table users) or
                                  CSV; - is standard input
       --apply                      and create them, all or none
  auth user reset-link NAME       print a link by which NAME sets a new password, once
  auth setup-link                 print a link by which the first admin is created, once
       --or-login                   where there are users, print where to log in
  auth invite add [NAME]          print a link by which somebody becomes a user, once
       --admin                      with the role admin
       --display-name TEXT          proposed to them
       --former                     NAME may be that of a deleted user
       --last-day DATE              they are a guest, until this day
  auth invite list                list the open invites
  auth invite revoke ID           make an invite void
  auth app add SLUG URL           create an application behind the guard; URL is /path/
                                  or https://host
       --name TEXT                  shown instead of SLUG
       --description TEXT           shown below it
       --rule RULE                  login (default), admin or group:SLUG
       --second-factor              a password alone does not open it
       --tokens                     app tokens open it
       --color #RRGGBB              of its initial
       --position N                 on the start page
  auth app set SLUG               change an application: the same flags, and --url URL;
                                  --tokens=false takes one back
  auth app route SLUG ADDRESS     say where the proxy finds an application: host:port,
                                  http://host:port or https://host:port
       --strip                      take the application's path from requests
       --user-header NAME           one more header that names the user, e.g. Remote-User
       --pin SHA256                 by which https is known; "" to take a new one
  auth app route SLUG --remove    or that it finds it by lines of its own
  auth app list                   list the applications
  auth app remove SLUG            remove an application: the guard refuses it
  auth group add SLUG             create a group of users
       --name TEXT                  shown instead of SLUG
  auth group list                 list the groups and their members
  auth group members SLUG         list the members of a group
       --add NAME                   make NAME a member
       --remove NAME                or no member any more; live sessions follow at once
  auth group remove SLUG          remove a group that no rule names
  auth token list [NAME]          list the app tokens of a user, or all
  auth token revoke ID            revoke an app token at once
  auth oidc add SLUG              have an application log users in by OpenID Connect, and
                                  print what is entered there; the secret is shown once
       --redirect URI               where it is led back to; may be repeated
       --client-id ID               instead of SLUG
       --public                     it has no server that keeps a secret
       --alg ALG                    RS256 (default) or ES256
       --pkce required              refuse it without PKCE
       --groups WHEN                asked (default), always or never: role and groups
       --email=false                tell no address instead of one of .invalid
       --offline                    it stays logged in without a browser
       --ask                        ask users each time
       --device                     devices without a browser show a code for it
       --after-logout URI           where a logout there may lead; may be repeated
       --logout-uri URI             where logouts are sent
  auth oidc set SLUG              change it: the same flags; addresses replace all
  auth oidc secret SLUG           print a new secret, beside the one that there is
       --remove ID                  or have one not count any more
  auth oidc remove SLUG           end it, and who is logged in there by it
  auth oidc list                  list what logs users in by OpenID Connect
  auth oidc preview SLUG NAME     show what an application would learn of NAME
  auth oidc grants [NAME]         list who is logged in where
  auth oidc end ID                end one of them
  auth oidc keys                  list the keys that sign
  auth oidc keys rotate           publish the next ones, which sign in 24 hours
  auth oidc keys revoke KID       have one verify nothing any more, at once
  auth oidc issuer                show by which issuer applications know this household
       --take                       make it that of PUBLIC_URL: many applications then take
                                    everybody for a new person
  auth audit                      list what was done, newest first
       --since DURATION             in the last 24h, 30m, ...
       --csv                        as a file for spreadsheets
  auth sessions list NAME         list the live sessions of a user
  auth sessions revoke NAME [KEY] end all sessions of a user, or the one whose key
                                  begins with KEY
  auth household name TEXT        name the household; "" for the name of the settings
  auth migrate                    bring the database up to date (serve does it too)
  auth healthcheck                fail unless the running service is healthy
  auth --version, auth --help

A NAME that begins with a hyphen comes after --: auth user delete -- -anna

A password is typed at the terminal, twice, or read as one line from standard
input. It is never an argument.

Settings are environment variables. The most important ones:
  SESSION_SECRET   signs the cookies; required by serve; at least 32 characters
  DATABASE_URL     where the users are; default sqlite:data/auth.db
  REDIS_URL        where the sessions are; default redis://127.0.0.1:6379
  PUBLIC_URL       origin that links begin with, such as https://home.example.org
  ADDR             address to serve on; default :8081
The README of services/auth lists them all. A secret NAME may come as NAME_FILE.

Exit codes: 0 done, 1 failed, 2 wrong command line.
`

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
