package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"text/template"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

const (
	// readyWithin bounds the wait for programs to get ready.
	readyWithin = time.Minute
	// stopWithin is what a program gets to finish its requests.
	stopWithin = 10 * time.Second
	// parentEvery is how often the launcher checks that its parent runs.
	parentEvery = 500 * time.Millisecond
)

// screenTemplate is what the terminal shows when the stack is up.
var screenTemplate = template.Must(template.New("screen").Parse(`
Pforte is up ({{.Took}}).

  proxy        {{.PublicURL}}
  auth         http://{{.Addresses.Auth}}
{{- if not .Household}}
  verifier     http://{{.Addresses.Verifier}}
  chain        http://{{.Chain}}   development chain, id {{.ChainID}}
  facilitator  http://{{.Facilitator}}
  beacon node  http://{{.Beacon}}   proves the chain's finality
{{- end}}
  Redis        {{.Redis}}   {{.RedisIs}}
{{- if not .Household}}
  log          {{.LogIs}}
{{- end}}
  logs         {{.Path "logs"}}

{{.FirstRun}}
{{- if not .Household}}
Pay for a verification, in another terminal:

  make demo     (without make: bin/local demo)

The buyers of services/verifier/README.md need a key that pays, which is public on this chain, and the hash of
a final transaction; this one is final within seconds:

  export PRIVATE_KEY={{.PayerKey}}
  export TRANSACTION={{.Transaction}}
{{end}}
Ctrl-C stops everything.
`))

// up runs the stack until ctx ends, a program that is not optional dies, or the process
// that started the launcher has ended.
func up(ctx context.Context, l layout.Layout, out io.Writer) error {
	begin := time.Now()
	lock, err := stack.Lock(l.State)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	logIs := l.PublicURL + receiptlog.DirectoryPath + "   two witnesses, a copy in " + l.Path("mirror")
	if l.Household {
		logIs = ""
	} else if l.Log, err = l.LogIsOurs(); err != nil {
		return err
	} else if !l.Log {
		logIs = "off: the one in " + l.State + " has the name of another address"
	}
	if err := prepare(ctx, l); err != nil {
		return err
	}
	programs, err := stack.New(l.Path("logs"))
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	go leaveWithParent(leave, os.Getppid)
	defer stop(programs, out) //nolint:contextcheck // ctx may have ended by then
	redis, transaction, err := start(ctx, l, programs, out)
	if err != nil {
		return explain(ctx, err)
	}
	if err := writeRunning(l); err != nil {
		return err
	}
	firstRun, err := l.SetupLink(ctx)
	if err != nil {
		return explain(ctx, err)
	}
	if err := screenTemplate.Execute(out, struct {
		layout.Layout
		RedisIs, LogIs, FirstRun, ChainID, PayerKey, Transaction string
		Took                                                     time.Duration
	}{
		l, redis, logIs, firstRun, layout.Network, layout.PayerKey, transaction,
		time.Since(begin).Round(100 * time.Millisecond),
	}); err != nil {
		return fmt.Errorf("print the addresses: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case failure := <-programs.Died():
		return explain(ctx, failure)
	}
}

func prepare(ctx context.Context, l layout.Layout) error {
	programs := []stack.Program{l.Auth(), l.Proxy()}
	if !l.Household {
		programs = append(programs, l.Devnet(), l.Verifier(), l.Mirror())
	}
	for _, program := range programs {
		if err := stack.Check(program.Path); err != nil {
			return err
		}
	}
	ports := l.Ports()
	_, port, _ := net.SplitHostPort(l.Addresses.Proxy)
	ports[0].Addr = net.JoinHostPort("", port) // the proxy listens on every interface
	if err := stack.Free(ctx, ports...); err != nil {
		return err
	}
	if err := os.Remove(l.Path(runningFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.Prepare()
}

// start starts what the services need, then the services and the proxy. It returns what Redis is, and, unless
// it is a household, the hash of a transaction of the chain that is final soon.
func start(
	ctx context.Context, l layout.Layout, programs *stack.Stack, out io.Writer,
) (redis, transaction string, err error) {
	if l.Household {
		printLine(out, "Starting Redis, auth and the proxy …")
		if redis, err = l.StartRedis(ctx, programs); err != nil {
			return "", "", err
		}
		return redis, "", programs.Start(ctx, readyWithin, l.Auth(), l.Proxy())
	}
	printLine(out, "Starting Redis and the development chain …")
	if redis, err = l.StartRedis(ctx, programs); err != nil {
		return "", "", err
	}
	first := []stack.Program{l.Devnet()}
	if l.Log {
		witnesses, err := l.Witnesses()
		if err != nil {
			return "", "", err
		}
		first = append(first, witnesses...)
	}
	if err := programs.Start(ctx, readyWithin, first...); err != nil {
		return "", "", err
	}
	if transaction, err = sendFirst(ctx, "http://"+l.Chain); err != nil {
		return "", "", err
	}
	printLine(out, "Starting auth, verifier and the proxy …")
	if err := programs.Start(ctx, readyWithin, l.Auth(), l.Verifier(), l.Proxy()); err != nil || !l.Log {
		return redis, transaction, err
	}
	return redis, transaction, programs.Start(ctx, readyWithin, l.Mirror())
}

// stop stops the stack. A second Ctrl-C kills what is left.
func stop(programs *stack.Stack, out io.Writer) {
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt)
	defer done()
	printLine(out, "\nStopping …")
	programs.Stop(ctx, stopWithin)
	printLine(out, "Stopped. The state is kept.")
}

// explain returns the error with the last log lines of the program that failed. It returns
// nil when ctx has ended: a start that the user interrupted is no fault.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return errors.New(stack.Explain(err))
}

// leaveWithParent ends the stack when the process that started the launcher
// (make, a shell) has ended, so that nothing is left running unseen.
func leaveWithParent(leave context.CancelFunc, parent func() int) {
	for first := parent(); parent() == first; {
		time.Sleep(parentEvery)
	}
	leave()
}

// printLine writes a line for the user at the terminal, who may have closed it.
func printLine(out io.Writer, line string) { _, _ = fmt.Fprintln(out, line) }
