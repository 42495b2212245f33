package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError says why the command line makes no sense.
type usageError string

func (e usageError) Error() string { return string(e) }

// Process is what the program gets from the operating system.
type Process struct {
	// Args are the arguments without the program's name.
	Args           []string
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Version is what --version tells.
	Version string
	// Passwords says how passwords are hashed. The zero value is the contract's
	// way; tests take a cheaper one.
	Passwords password.Options
	// Ready, when set, is called with both addresses once the service serves.
	Ready func(addr, admin net.Addr)
}

// Run carries out the command line and returns the exit code: 0, 1 for a
// failure, 2 for a command line that makes no sense.
func Run(ctx context.Context, p Process) int {
	err := p.run(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(p.Stdout, help)
		return exitOK
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(p.Stderr, "auth: %v\nRun \"auth --help\" for the commands.\n", err)
		return exitUsage
	default:
		_, _ = fmt.Fprintf(p.Stderr, "auth: %v\n", err)
		return exitFailed
	}
}

// command is one thing the program can do. It gets the arguments after its
// name.
type command func(ctx context.Context, p Process, args []string) error

// commands, by name. A nested command has two words.
var commands = map[string]command{
	"serve":           serveCommand,
	"migrate":         migrate,
	"healthcheck":     healthcheck,
	"user add":        userAdd,
	"user list":       userList,
	"user passwd":     userPasswd,
	"user role":       userRole,
	"user delete":     userDelete,
	"user import":     userImport,
	"sessions list":   sessionsList,
	"sessions revoke": sessionsRevoke,
}

func (p Process) run(ctx context.Context) error {
	if len(p.Args) == 0 {
		return serveCommand(ctx, p, nil)
	}
	switch p.Args[0] {
	case "--version", "-version", "version":
		_, err := fmt.Fprintln(p.Stdout, "auth", p.Version)
		return err
	case "--help", "-help", "-h", "help":
		return flag.ErrHelp
	}
	if run, ok := commands[p.Args[0]]; ok {
		return run(ctx, p, p.Args[1:])
	}
	if len(p.Args) > 1 {
		if run, ok := commands[p.Args[0]+" "+p.Args[1]]; ok {
			return run(ctx, p, p.Args[2:])
		}
	}
	if p.wantsHelp() {
		return flag.ErrHelp
	}
	return usageError("there is no such command")
}

// wantsHelp tells whether a command that does not exist was asked for its help,
// as in "auth user --help".
func (p Process) wantsHelp() bool {
	last := p.Args[len(p.Args)-1]
	return last == "--help" || last == "-h" || last == "-help" || last == "help"
}

// parse reads flags and exactly as many words as names says, in any order. A
// name in brackets may be missing and is then empty.
func parse(flags *flag.FlagSet, args []string, names ...string) ([]string, error) {
	flags.SetOutput(io.Discard)
	var words []string
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, usageError(err.Error())
		}
		if flags.NArg() == 0 {
			break
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	if len(words) > len(names) {
		return nil, usageError("there is a word too many: passwords, for one, are never arguments")
	}
	for _, name := range names[len(words):] {
		if name[0] != '[' {
			return nil, usageError(name + " is missing")
		}
		words = append(words, "")
	}
	return words, nil
}

func newFlags(name string) *flag.FlagSet { return flag.NewFlagSet(name, flag.ContinueOnError) }
