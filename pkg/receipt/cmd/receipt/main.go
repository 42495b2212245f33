// Command receipt checks signed receipts, makes the keys that sign them, watches and copies
// logs of receipts, and runs a witness of them. See `receipt --help`. It reads files and
// addresses, bounded, and puts into plain words what the packages of this module find.
package main

import (
	"context"
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

const help = `receipt checks signed receipts about blockchain transactions, offline.

  receipt verify FILE [--key FILE|URL] [--json] [--require-proof]
                      [--log FILE|URL] [--log-policy FILE] [--log-list FILE|URL]
                      [--finality FILE|URL --checkpoint ROOT] [--require-finality]
                      [--network NAME|FILE] [--max-checkpoint-age DURATION]
        check the signature and the proof, and say what is proven and what is
        only attested by the signer. With --log the receipt must be in the
        verifier's public log: FILE is a proof of it, URL the verifier. The policy
        names the log and the witnesses that you trust; without one, an address is
        judged by the log's own. A policy that names several generations of the log
        needs the verifier's list of them: --log-list, else that of the address of
        --log or --key. With --finality the block must be shown to be final:
        FILE is a finality proof, URL the verifier, ROOT a finalized beacon block that
        you have from a source of your own; --network is mainnet, sepolia, hoodi or a
        file, and follows from the receipt without it
  receipt log get FILE URL
        print the proof that a receipt is in the log of the verifier at URL
  receipt log check URL [--log-policy FILE] [--state FILE] [--max-age DURATION]
        read the logs of the verifier at URL as one who watches them: each must be
        witnessed and continue the checkpoint in the state file, its new entries must
        be in its tree, and the newest cosigned within the last two hours. The states
        of keys must follow one another, and the key document list the last ones. With
        a policy its witnesses are asked too: they may have cosigned no log that the
        verifier does not list, and no other tree
  receipt log mirror URL DIR [--log-policy FILE] [--every DURATION] [--max-age DURATION]
        copy the logs of the verifier at URL to DIR, as files that any web server
        can serve, after the same checks but those of keys; again each DURATION
  receipt log key FILE ORIGIN
        print the verifier key of the log with an origin that a signing key signs
  receipt witness --key FILE --name NAME [--log VKEY ...] [--log-policy FILE]
                  [--state FILE] [--listen ADDR] [--init] [--begin VKEY ...]
        cosign the checkpoints of logs, those named and those of a policy, each only
        where it continues the last, which the state file holds; --init makes it. Of each
        log the generation that is named first begins by itself; a later one, or one with
        another key, only when the witness is once started with --begin.
        Without a log, print the witness's verifier key
  receipt inspect FILE
        print a receipt without checking anything
  receipt keygen [--out FILE]
        make a signing key (PKCS#8 PEM); a FILE is made for its owner alone and
        never overwritten
  receipt pubkey FILE [--chain ID]
        print the key document of a signing key
  receipt --version

FILE - is the standard input. A receipt may be the plain answer of a verifier
or a DSSE envelope. A key is a key document: a file, or the address of one; of an
address without a path, /.well-known/receipt-signing-key.json. An address must be
https, or http on this machine; with --log-policy, log check and log mirror take
http of any.

Exit codes
  0  valid, or done
  1  not valid: malformed, not signed by a good key of the document, changed, a
     proof that does not hold, --require-proof or --require-finality and there is
     none, or --log and the log gives no proof that it has it
  2  the command was not understood
  3  the key cannot be had: none given, not reachable, not a key document; or
     the policy or the finality proof cannot, or the log cannot be reached or,
     for log check and log mirror, serves no list or no checkpoint. The proof was
     looked at nonetheless.
  4  a file cannot be read or written
`

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
		_, _ = fmt.Fprintln(s.err, "receipt:", printable(failed.Error()))
	}
	return failed.code
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

// printable replaces what is not printable, except newlines, by question marks, so that no
// document can control the terminal through what is quoted of it.
func printable(text string) string {
	return strings.Map(func(char rune) rune {
		if !unicode.IsPrint(char) && char != '\n' {
			return '?'
		}
		return char
	}, text)
}
