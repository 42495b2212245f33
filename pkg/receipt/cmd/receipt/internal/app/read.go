package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
)

// Bounds of what is read from outside.
const (
	maxKeySize   = 1 << 20
	fetchTimeout = 15 * time.Second
	maxRedirects = 3
)

// keyPath is where a verifier publishes its key document (contract section 4).
const keyPath = "/.well-known/receipt-signing-key.json"

// readFile reads a file, or the standard input for "-", up to a size.
func readFile(path string, in io.Reader, most int64) ([]byte, error) {
	if path != "-" {
		file, err := os.Open(path) //nolint:gosec // the user names it
		if err != nil {
			return nil, exitError{exitIO, err}
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := readBounded(in, most)
	if err != nil {
		return nil, exitError{exitIO, fmt.Errorf("%s: %w", path, err)}
	}
	return data, nil
}

func readBounded(in io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("more than %d bytes", most)
	}
	return data, nil
}

// keyDocument gets a key document from a file or an address. Every failure leads
// to exitNoKey.
func keyDocument(ctx context.Context, from string, in io.Reader) (receipt.KeyDocument, error) {
	var data []byte
	var err error
	if strings.Contains(from, "://") {
		data, err = fetch(ctx, from)
	} else {
		data, err = readFile(from, in, maxKeySize)
	}
	if err != nil {
		return receipt.KeyDocument{}, exitError{exitNoKey, fmt.Errorf("key document: %w", err)}
	}
	doc, err := receipt.ParseKeyDocument(data)
	if err != nil {
		return receipt.KeyDocument{}, exitError{exitNoKey, fmt.Errorf("%s: %w", from, err)}
	}
	return doc, nil
}

// fetch gets a small document over https, or over http from this machine.
func fetch(ctx context.Context, address string) ([]byte, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	if target.Path == "" || target.Path == "/" {
		target.Path = keyPath
	}
	if err := trusted(target); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		return trusted(next.URL)
	}}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", target.Redacted(), answer.Status)
	}
	return readBounded(answer.Body, maxKeySize)
}

// trusted returns nil when nothing between us and an address can change what it
// answers: a forged key document would make forged receipts valid.
func trusted(target *url.URL) error {
	host := target.Hostname()
	ip := net.ParseIP(host)
	local := host == "localhost" || ip != nil && ip.IsLoopback()
	if target.Scheme == "https" && host != "" || target.Scheme == "http" && local {
		return nil
	}
	return errors.New("the address of a key must be https, or http on this machine")
}
