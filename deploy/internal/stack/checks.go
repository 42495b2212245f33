package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// checkWithin bounds one check of a program that starts.
const checkWithin = 2 * time.Second

// Healthy returns a check that a URL answers 200.
func Healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkWithin)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 512))
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s answers %s: %s", url, resp.Status, body)
		}
		return err
	}
}

// Listening returns a check that an address accepts connections.
func Listening(addr string) func(context.Context) error {
	return connected(addr, func(net.Conn) error { return nil })
}

// RedisAnswers returns a check that a Redis takes commands: while it
// loads its data it answers with an error.
func RedisAnswers(addr string) func(context.Context) error {
	return connected(addr, func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			return err
		}
		answer := make([]byte, len("+PONG\r\n"))
		_, err := io.ReadFull(conn, answer)
		if err == nil && string(answer) != "+PONG\r\n" {
			err = fmt.Errorf("redis: ping: %q", answer)
		}
		return err
	})
}

func connected(addr string, check func(net.Conn) error) func(context.Context) error {
	return func(ctx context.Context) error {
		deadline := time.Now().Add(checkWithin)
		conn, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return errors.Join(conn.SetDeadline(deadline), check(conn))
	}
}

// Check returns an error unless path is a program that can be started.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not built: run make build", path)
	}
	return nil
}

// Port is an address that a program of the stack will listen on, and the
// setting that chooses it.
type Port struct {
	Program string
	Setting string
	Addr    string
}

// Free returns an error when addresses are taken, with a line for each and what to
// do about it.
func Free(ctx context.Context, ports ...Port) error {
	var faults []error
	for _, p := range ports {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.Addr)
		if err == nil {
			err = l.Close()
		} else {
			_, number, _ := net.SplitHostPort(p.Addr)
			err = fmt.Errorf("port %s for %s is taken: stop what listens there, or set %s to another", number,
				p.Program, p.Setting)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// ErrRunning is returned when another stack uses the same state.
var ErrRunning = errors.New("a stack with this state runs already")

// Lock claims a folder of state for this process until the file is closed or the process ends. The
// error wraps ErrRunning where another process has claimed it.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for state: %w", err)
	}
	lock := filepath.Join(dir, "lock")
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the caller's folder
	if err != nil {
		return nil, fmt.Errorf("lock the state: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (%s)", ErrRunning, dir)
		}
		return nil, fmt.Errorf("lock the state: %w", err)
	}
	return f, nil
}
