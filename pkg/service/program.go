package service

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pforte/pforte/pkg/buildinfo"
)

// Process is what a program is started with.
type Process struct {
	// Args are the arguments without the program's name.
	Args           []string
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Version is the program's, which --version prints.
	Version string
	// Ready, when set, is called with both addresses once the service serves.
	Ready func(addr, admin net.Addr)
}

// Main runs a program and exits with the code that run returns. SIGTERM and Ctrl-C end
// the context of run. version is the one that the linker set.
func Main(version string, run func(context.Context, Process) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	code := run(ctx, Process{
		Args: os.Args[1:], Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: buildinfo.Version(version),
	})
	stop()
	os.Exit(code)
}

// Command carries out one command with the arguments after its name.
type Command func(ctx context.Context, args []string) error

// Program is a program's table of commands.
type Program struct {
	Name string
	// Help is what --help prints.
	Help string
	// Commands by name, which is one word or two. The one named "serve" is run
	// when there are no arguments.
	Commands map[string]Command
	// UsageCode is the exit code for a command line that the program does not
	// understand; zero means 2.
	UsageCode int
}

// usageError is a command line that the program does not understand.
type usageError string

func (e usageError) Error() string { return string(e) }

// ExitError is an error of a command with an exit code of its own.
type ExitError struct {
	Err  error
	Code int
}

func (e ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e ExitError) Unwrap() error { return e.Err }

// UsageError returns an error that Program.Run reports as a command line that the
// program does not understand.
func UsageError(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// IsUsage reports whether an error is a command line that the program does not understand.
func IsUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

// Run carries out the command line and returns the exit code: that of an ExitError; else
// 0, also for help; UsageCode for a command line that is not understood; and 1 for any
// other failure.
func (p Program) Run(ctx context.Context, proc Process) int {
	err := p.run(ctx, proc)
	exit := ExitError{Code: 1}
	if !errors.As(err, &exit) && IsUsage(err) {
		exit.Code = cmp.Or(p.UsageCode, 2)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(proc.Stdout, p.Help)
		if errors.As(err, &exit) {
			return exit.Code
		}
		return 0
	case IsUsage(err):
		_, _ = fmt.Fprintf(proc.Stderr, "%s: %v\nRun \"%s --help\" for the commands.\n", p.Name, err, p.Name)
		return exit.Code
	default:
		_, _ = fmt.Fprintf(proc.Stderr, "%s: %v\n", p.Name, err)
		return exit.Code
	}
}

func (p Program) run(ctx context.Context, proc Process) error {
	args := proc.Args
	if len(args) == 0 {
		args = []string{"serve"}
	}
	help := []string{"--help", "-help", "-h", "help"}
	switch {
	case slices.Contains(help, args[0]):
		return flag.ErrHelp
	case slices.Contains([]string{"--version", "-version", "version"}, args[0]):
		_, err := fmt.Fprintln(proc.Stdout, p.Name, proc.Version)
		return err
	}
	for words := 1; words <= min(2, len(args)); words++ {
		if command, ok := p.Commands[strings.Join(args[:words], " ")]; ok {
			return command(ctx, args[words:])
		}
	}
	if slices.Contains(help, args[len(args)-1]) { // as in "auth user --help"
		return flag.ErrHelp
	}
	return usageError("there is no such command")
}

// Flags returns an empty set of flags for Parse.
func Flags() *flag.FlagSet { return flag.NewFlagSet("", flag.ContinueOnError) }

// Parse reads flags and one word for each of names, in any order. A word whose name is in
// brackets may be missing and is then "". What is after "--" is no flag. Errors do not quote
// words, which may have been meant as a password; those about a flag quote it, and a value that
// it does not take. flag.ErrHelp: -h or --help is among the flags.
func Parse(flags *flag.FlagSet, args []string, names ...string) ([]string, error) {
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
		if read := len(args) - flags.NArg(); read > 0 && args[read-1] == "--" {
			words = append(words, flags.Args()...)
			break
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
	if len(words) > len(names) {
		return nil, usageError("too many arguments")
	}
	for _, name := range names[len(words):] {
		if name[0] != '[' {
			return nil, usageError(name + " is missing")
		}
		words = append(words, "")
	}
	return words, nil
}

// Operator returns the name of the operating system's user who runs the program,
// or their number where they have no name.
func Operator() string {
	if u, err := user.Current(); err == nil {
		return cmp.Or(u.Username, u.Uid)
	}
	return strconv.Itoa(os.Getuid())
}

// healthcheckTimeout is how long Healthcheck waits for the answer.
const healthcheckTimeout = 3 * time.Second

// Healthcheck requests /health of a server on this machine and fails unless the
// status is 200. A container runs it, where there is no shell. addr is the
// address that the server listens on; a host that is empty or stands for all
// addresses means 127.0.0.1.
func Healthcheck(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/health", nil)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("check health: GET /health: status %s", resp.Status)
	}
	return nil
}
