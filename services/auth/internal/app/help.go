package app

// help is what --help tells. The settings stand in the README.
const help = `auth keeps the users of a household and their sessions.

  auth [serve]                    serve, until it is told to stop (SIGTERM, Ctrl-C)
  auth user add NAME              create a user; the password is asked for
       --admin                      with the role admin
       --display-name TEXT          shown instead of NAME
       --color #RRGGBB              of the avatar
  auth user list [--json]         show all users
  auth user passwd NAME           set a password and end all sessions of the user
  auth user role NAME ROLE        make NAME an admin or a member, in live sessions too
  auth user delete NAME           delete a user and end all sessions of the user
  auth user import --from FILE    show what would come of another application's users:
                                  its SQLite file (table users) or CSV; - is standard
                                  input
       --apply                      and take them in, all or none
  auth sessions list NAME         show the live sessions of a user
  auth sessions revoke NAME [KEY] end all sessions of a user, or the one whose key
                                  begins with KEY
  auth migrate                    bring the database up to date (serve does it too)
  auth healthcheck                ask the running service for its health
  auth --version, auth --help

A password is typed at the terminal, twice, or read as one line from standard
input. It is never an argument.

Settings are environment variables. The most important ones:
  SESSION_SECRET   signs the cookies; required by serve; at least 32 characters
  DATABASE_URL     where the users are; default sqlite:data/auth.db
  REDIS_URL        where the sessions are; default redis://127.0.0.1:6379
  ADDR             address to serve on; default :8081
The README of services/auth lists them all. A secret NAME may come as NAME_FILE.

Exit codes: 0 done, 1 failed, 2 the command line makes no sense.
`
