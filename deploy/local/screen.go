package main

import (
	"fmt"
	"io"
	"text/template"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// view is what the screen shows.
type view struct {
	layout.Layout
	RedisIs, Password, Admin, ChainID string
	Took                              time.Duration
}

var screenTemplate = template.Must(template.New("screen").Parse(`
Pforte is up ({{.Took}}).

  proxy        {{.PublicURL}}
  auth         http://{{.Addresses.Auth}}
  verifier     http://{{.Addresses.Verifier}}
  chain        http://{{.Chain}}   development chain, id {{.ChainID}}
  facilitator  http://{{.Facilitator}}
  Redis        {{.Redis}}   {{.RedisIs}}
  logs         {{.Path "logs"}}

Log in as {{.Admin}}, password {{.Password}} (made at the first start):

  curl -i -H 'Content-Type: application/json' \
    -d '{"username":"{{.Admin}}","password":"{{.Password}}"}' {{.PublicURL}}/api/v1/auth/login

Pay for a verification, in another terminal:

  make demo     (without make: bin/local demo)

Ctrl-C stops everything.
`))

func screen(l layout.Layout, redis string, took time.Duration, out io.Writer) error {
	password, err := l.AdminPassword()
	if err != nil {
		return err
	}
	if err := screenTemplate.Execute(out, view{
		Layout: l, RedisIs: redis, Password: password, Admin: layout.AdminName,
		ChainID: layout.Network, Took: took.Round(100 * time.Millisecond),
	}); err != nil {
		return fmt.Errorf("print the addresses: %w", err)
	}
	return nil
}
