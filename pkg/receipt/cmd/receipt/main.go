// Command receipt checks signed receipts, makes the keys that sign them, watches and copies
// logs of receipts, and runs a witness of them. See `receipt --help`. It reads files and
// addresses, bounded, and puts into plain words what the packages of this module find.
package main

import (
	"context"
	_ "embed" // the help
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// version is set by the linker in released builds.
var version string

func main() {
	if info, ok := debug.ReadBuildInfo(); version == "" && ok {
		version = info.Main.Version // of `go install module@version`
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, time.Now}, version)
	stop()
	os.Exit(code)
}

// Exit codes, as the help lists them.
const (
	exitValid   = 0 // or done
	exitInvalid = 1
	exitUsage   = 2
	exitNoKey   = 3
	exitIO      = 4
)

//go:embed help.txt
var help string

// streams are the standard streams of the process, and its clock.
type streams struct {
	in       io.Reader
	out, err io.Writer
	now      func() time.Time
}

// exitError is an error with its exit code. Any other error leads to exitNoKey where there was no
// answer, else to exitIO.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }

func (e exitError) Unwrap() error { return e.err }

// usage returns the error of a command that was not understood.
func usage(format string, args ...any) error {
	return exitError{exitUsage, fmt.Errorf(format, args...)}
}

// errPrinted marks a failure that the output has explained already.
var errPrinted = errors.New("already printed")

// execute runs one command and returns the exit code. The version is what --version
// prints.
func execute(ctx context.Context, args []string, s streams, version string) int {
	err := dispatch(ctx, args, s, version)
	if err == nil {
		return exitValid
	}
	failed, ok := unread(err)
	if !ok {
		failed = exitError{exitIO, err}
	}
	if !errors.Is(failed.err, errPrinted) {
		complain(s.err, failed)
	}
	return failed.code
}

// complain prints an error, each of faults on a line of its own.
func complain(out io.Writer, err error) {
	lines := faults{err.Error()}
	_ = errors.As(err, &lines) // else it stays one line
	for _, line := range lines {
		_, _ = fmt.Fprintln(out, "receipt:", printable(line))
	}
}

func dispatch(ctx context.Context, args []string, s streams, version string) error {
	if len(args) == 0 {
		_, _ = io.WriteString(s.err, help)
		return exitError{exitUsage, errPrinted}
	}
	switch command, rest := args[0], args[1:]; command {
	case "verify":
		return verify(ctx, rest, s)
	case "inspect":
		return inspect(rest, s)
	case "log":
		return logCommand(ctx, rest, s)
	case "witness":
		return witnessCommand(ctx, rest, s)
	case "keygen":
		return keygen(rest, s)
	case "pubkey":
		return pubkey(rest, s)
	case "help", "-h", "-help", "--help":
		_, err := io.WriteString(s.out, help)
		return err
	case "version", "-version", "--version":
		_, err := fmt.Fprintln(s.out, "receipt", version)
		return err
	default:
		return usage("no command %q; see receipt --help", command)
	}
}

// parse reads flags before, between and after the positional arguments, and returns these.
// There must be as many as positionals says.
func parse(flags *flag.FlagSet, args []string, positionals int) ([]string, error) {
	flags.SetOutput(io.Discard)
	var found []string
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return nil, usage("%s: %w; see receipt --help", flags.Name(), err)
		}
		if args = flags.Args(); len(args) > 0 {
			found, args = append(found, args[0]), args[1:]
		}
	}
	if len(found) != positionals {
		return nil, usage("%s: %d arguments, not %d; see receipt --help", flags.Name(), len(found), positionals)
	}
	return found, nil
}

func writeJSON(out io.Writer, value any, indent string) error {
	e := json.NewEncoder(out)
	e.SetIndent("", indent)
	return e.Encode(value)
}

// printable returns text on one line, and with a question mark for what is not printable, so that no document can
// control the terminal, or add a line that looks like our own, through what is quoted of it.
func printable(text string) string {
	return strings.Map(func(char rune) rune {
		if !unicode.IsPrint(char) {
			return '?'
		}
		return char
	}, strings.ReplaceAll(text, "\n", "; "))
}
