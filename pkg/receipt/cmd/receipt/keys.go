package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
)

// keygen makes a signing key: on the standard output, or in a file that only its
// owner can read and that was not there before.
func keygen(args []string, s streams) error {
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
		_, err = s.out.Write(text)
		return err
	}
	if err := writeNew(*path, text); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, key.ID())
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

func pubkey(args []string, s streams) error {
	flags := flag.NewFlagSet("pubkey", flag.ContinueOnError)
	chain := flags.String("chain", "eip155:8453", "")
	files, err := parse(flags, args, 1)
	if err != nil {
		return err
	}
	text, err := readFile(files[0], s.in, maxKeySize)
	if err != nil {
		return err
	}
	key, err := receipt.ParseSigningKey(text)
	if err != nil {
		return exitError{exitInvalid, fmt.Errorf("%s: %w", files[0], err)}
	}
	doc, err := receipt.NewKeyDocument(key, *chain)
	if err != nil {
		return usage("pubkey: %w", err)
	}
	return writeJSON(s.out, doc, " ")
}

// Bounds of what is read from outside.
const (
	maxKeySize   = 1 << 20 // bytes of a key or a key document
	fetchTimeout = 15 * time.Second
	maxRedirects = 3
)

// keyPath is where a verifier publishes its key document (VERIFIER-1.5).
const keyPath = "/.well-known/receipt-signing-key.json"

// readFile reads a file, or in for "-" unless in is nil. More than most bytes are an error.
func readFile(path string, in io.Reader, most int64) ([]byte, error) {
	if path != "-" || in == nil {
		file, err := os.Open(path) //nolint:gosec // the user names it
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := readBounded(in, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

var errTooLarge = errors.New("too large")

// readBounded reads all of in. errTooLarge.
func readBounded(in io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, most)
	}
	return data, nil
}

// keyDocument gets a key document from a file or an address; an error when from is "".
func keyDocument(ctx context.Context, from string, in io.Reader) (receipt.KeyDocument, error) {
	if from == "" {
		return receipt.KeyDocument{}, errors.New("no key given (--key), so the signature is not checked")
	}
	var data []byte
	var err error
	if strings.Contains(from, "://") {
		data, err = fetch(ctx, from)
	} else {
		data, err = readFile(from, in, maxKeySize)
	}
	if err != nil {
		return receipt.KeyDocument{}, fmt.Errorf("key document: %w", err)
	}
	doc, err := receipt.ParseKeyDocument(data)
	if err != nil {
		return receipt.KeyDocument{}, fmt.Errorf("%s: %w", from, err)
	}
	return doc, nil
}

// fetch gets a key document over https, or over http from this machine. In an address
// without a path, the path is keyPath.
func fetch(ctx context.Context, address string) ([]byte, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	if target.Path == "" || target.Path == "/" {
		target.Path = keyPath
	}
	status, data, err := get(ctx, target, trusted, "a key", maxKeySize)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d %s", target.Redacted(), status, http.StatusText(status))
	}
	return data, nil
}

var errAddress = errors.New("must be https, or http on this machine")

// get fetches an address. of names what is at the address, such as "a key", for the error about an address
// that is not allowed. Without a whole answer the error is a *url.Error, also where the connection breaks in
// the body, because an outage says nothing of what is there. errAddress; errTooLarge for a body of more than
// most bytes.
func get(
	ctx context.Context, target *url.URL, allowed func(*url.URL) bool, of string, most int64,
) (status int, data []byte, err error) {
	if !allowed(target) {
		return 0, nil, fmt.Errorf("the address of %s %w", of, errAddress)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		if !allowed(next.URL) {
			return fmt.Errorf("the address of %s %w", of, errAddress)
		}
		return nil
	}}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if data, err = readBounded(answer.Body, most); err != nil && !errors.Is(err, errTooLarge) {
		err = &url.Error{Op: "Get", URL: target.Redacted(), Err: err}
	}
	return answer.StatusCode, data, err
}

// trusted reports whether an address is https, or http on this machine, so that nothing on the
// way can change its answer: a forged key document would make forged receipts valid.
func trusted(target *url.URL) bool {
	host := target.Hostname()
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	return target.Scheme == "https" && host != "" || target.Scheme == "http" && local
}
