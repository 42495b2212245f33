package app

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"

	"github.com/pforte/pforte/pkg/receipt"
)

// keygen makes a signing key: on the standard output, or in a file that only its
// owner can read and that was not there before.
func keygen(args []string, streams Streams) error {
	flags := flag.NewFlagSet("keygen", flag.ContinueOnError)
	path := flags.String("out", "", "")
	if _, err := parse(flags, args, 0); err != nil {
		return err
	}
	key, err := receipt.GenerateKey()
	if err != nil {
		return err
	}
	text, err := key.PEM()
	if err != nil {
		return err
	}
	if *path == "" {
		_, err = streams.Out.Write(text)
		return err
	}
	if err := writeNew(*path, text); err != nil {
		return err
	}
	_, err = fmt.Fprintln(streams.Out, key.ID())
	return err
}

func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already and will not be overwritten", path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync() // a key that signed and was then lost cannot be made again
	}
	return errors.Join(err, file.Close())
}

// pubkey prints the key document of a signing key.
func pubkey(args []string, streams Streams) error {
	flags := flag.NewFlagSet("pubkey", flag.ContinueOnError)
	chain := flags.String("chain", "eip155:8453", "")
	files, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	text, err := readFile(files[0], streams.In, maxKeySize)
	if err != nil {
		return err
	}
	key, err := receipt.ParseSigningKey(text)
	if err != nil {
		return exitError{exitInvalid, fmt.Errorf("%s: %w", files[0], err)}
	}
	doc, err := receipt.NewKeyDocument(key, *chain)
	if err != nil {
		return exitError{exitUsage, fmt.Errorf("pubkey: %w", err)}
	}
	return indented(streams, doc)
}

func indented(streams Streams, value any) error {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	_, err = streams.Out.Write(append(text, '\n'))
	return err
}
