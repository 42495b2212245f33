// Command backup saves and restores what a stack must not lose. See
// `backup --help`.
package main

import (
	"context"
	_ "embed" // the help
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pforte/pforte/deploy/internal/backup"
	"github.com/pforte/pforte/pkg/buildinfo"
	"github.com/pforte/pforte/pkg/config"
)

//go:embed usage.txt
var usage string

var version string //nolint:gochecknoglobals // -ldflags -X

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "backup:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, in io.Reader, out, log io.Writer) error {
	flags := flag.NewFlagSet("backup", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	showVersion := flags.Bool("version", false, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(out, usage)
		return err
	} else if err != nil {
		return err
	}
	if *showVersion {
		_, err := fmt.Fprintln(out, "backup", buildinfo.Version(version))
		return err
	}
	again := flags.Arg(0) == "every"
	if flags.NArg() < 1 || flags.NArg() > 2 && !again {
		return errors.New("one of save, every, check and restore is needed, and at most one file; see backup --help")
	}
	settings, err := config.Load[backup.Settings](getenv)
	if err != nil {
		return fmt.Errorf("the settings are wrong:\n%w", err)
	}
	if again {
		return every(ctx, settings, flags.Args()[1:], log)
	}
	done, m, err := carryOut(ctx, settings, flags.Arg(0), flags.Arg(1), in, out)
	if err != nil {
		return err
	}
	if err := report(log, done, m); err != nil {
		return err
	}
	if done != restored || settings.Users == backup.None {
		return nil
	}
	_, err = fmt.Fprintf(log, "What was taken back after %s is valid again: see auth user list, auth group list, "+
		"auth token list. Open links are void.\n",
		m.MadeAt.Format(time.RFC3339))
	return err
}

// report writes a line for each file of an archive.
func report(log io.Writer, done string, m backup.Manifest) error {
	for _, f := range m.Files {
		if _, err := fmt.Fprintf(log, "%s %s, %d bytes, as of %s\n", done, f.Name, f.Size,
			m.MadeAt.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return nil
}

// keepDefault is how many archives stay unless told otherwise.
const keepDefault = 14

// every saves again and again until ctx ends. A save that fails goes to log and does not end it.
func every(ctx context.Context, s backup.Settings, args []string, log io.Writer) error {
	errUsage := errors.New("the time between two archives is needed, and a folder: backup every 24h --keep 14 FOLDER")
	if len(args) == 0 {
		return errUsage
	}
	between, err := time.ParseDuration(args[0])
	flags := flag.NewFlagSet("every", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	keep := flags.Int("keep", keepDefault, "")
	if err := errors.Join(err, flags.Parse(args[1:])); err != nil || flags.NArg() != 1 {
		return errors.Join(errUsage, err)
	}
	return backup.Schedule{
		Settings: s, Folder: flags.Arg(0), Every: between, Keep: *keep, Version: buildinfo.Version(version),
		Now: time.Now,
		Wait: func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		},
		Saved:  func(file string, m backup.Manifest) { _ = report(log, "saved and checked in "+file+":", m) },
		Failed: func(err error) { _, _ = fmt.Fprintln(log, "backup:", err) },
	}.Run(ctx)
}

const restored = "restored"

// carryOut runs a command on the named file, or on in and out without one, and returns the word for
// what was done.
func carryOut(
	ctx context.Context, s backup.Settings, command, file string, in io.Reader, out io.Writer,
) (done string, m backup.Manifest, err error) {
	switch command {
	case "save":
		made := buildinfo.Version(version)
		if file != "" {
			if m, err = s.SaveFile(ctx, file, made, time.Now()); err == nil {
				err = s.Note(ctx, m)
			}
			return "saved and checked", m, err
		}
		if isDevice(out) {
			return "", m, errors.New("standard output is a terminal: name a file, as in backup save FILE")
		}
		m, err = s.Save(ctx, out, made, time.Now())
		return "saved", m, err
	case "check", "restore":
		if file != "" {
			archive, err := os.Open(file) //nolint:gosec // the operator's
			if err != nil {
				return "", m, err
			}
			defer func() { _ = archive.Close() }()
			in = archive
		}
		if command == "check" {
			m, err = s.Check(ctx, in)
			return "whole:", m, err
		}
		m, err = s.Restore(ctx, in)
		return restored, m, err
	}
	return "", m, fmt.Errorf("there is no command %q; see backup --help", command)
}

// isDevice reports whether out is a character device, as a terminal is, where an archive would be lost.
func isDevice(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
