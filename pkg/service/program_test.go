package service_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/service"
)

// program runs a command line and returns the exit code, both outputs, and what
// reached the commands.
func program(t *testing.T, code int, args ...string) (int, string, string, []string) {
	t.Helper()
	var out, errs bytes.Buffer
	var got []string
	note := func(name string) service.Command {
		return func(_ context.Context, args []string) error { got = append([]string{name}, args...); return nil }
	}
	p := service.Program{Name: "tool", Help: "the help\n", UsageCode: code, Commands: map[string]service.Command{
		"serve": note("serve"), "user add": note("user add"), "fail": func(context.Context, []string) error { return errors.New("it broke") },
		"words": func(_ context.Context, args []string) error {
			flags := service.Flags()
			long := flags.Bool("long", false, "")
			words, err := service.Parse(flags, args, "NAME", "[KEY]")
			if got = words; *long {
				got = append(got, "long")
			}
			return err
		},
	}}
	exit := p.Run(t.Context(), service.Process{Args: args, Stdout: &out, Stderr: &errs, Version: "v1"})
	return exit, out.String(), errs.String(), got
}

func TestProgram_ACommandHasOneWordOrTwo(t *testing.T) {
	for line, want := range map[string][]string{
		"": {"serve"}, "serve now": {"serve", "now"}, "user add anna --admin": {"user add", "anna", "--admin"},
		"words anna": {"anna", ""}, "words anna --long k": {"anna", "k", "long"},
		"words -- -a -b": {"-a", "-b"}, "words anna -- --long": {"anna", "--long"}, "words --long -- -a": {"-a", "", "long"},
	} {
		if code, _, errs, got := program(t, 0, strings.Fields(line)...); code != 0 || !slices.Equal(got, want) {
			t.Errorf("%q: %d %s %q", line, code, errs, got)
		}
	}
}

func TestProgram_ExitCodesTellFailureFromUsage(t *testing.T) {
	for line, want := range map[string]string{
		"sell": "there is no such command", "user": "there is no such command", "words": "NAME is missing",
		"words a b hunter2": "too many arguments", "words --short": "flag provided but not defined",
	} {
		code, _, errs, _ := program(t, 0, strings.Fields(line)...)
		if code != 2 || !strings.HasPrefix(errs, "tool: "+want) || !strings.HasSuffix(errs, "\nRun \"tool --help\" for the commands.\n") || strings.Contains(errs, "hunter2") {
			t.Errorf("%q: %d %s", line, code, errs)
		}
	}
	if code, _, _, _ := program(t, 7, "sell"); code != 7 {
		t.Errorf("got %d", code)
	}
	if code, _, errs, _ := program(t, 0, "fail"); code != 1 || errs != "tool: it broke\n" {
		t.Errorf("got %d %q", code, errs)
	}
}

func TestHelp_AndVersion(t *testing.T) {
	for _, line := range []string{"--help", "-h", "help", "user --help", "words --help", "user help"} {
		if code, out, _, _ := program(t, 0, strings.Fields(line)...); code != 0 || out != "the help\n" {
			t.Errorf("%q: %d %q", line, code, out)
		}
	}
	for _, line := range []string{"--version", "version"} {
		if code, out, _, _ := program(t, 0, line); code != 0 || out != "tool v1\n" {
			t.Errorf("%q: %d %q", line, code, out)
		}
	}
}
