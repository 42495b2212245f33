package stack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, resp.Status, body)
		}
		return nil
	}
}

// Listening returns a check that an address accepts connections.
func Listening(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: checkWithin}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// RedisAnswers returns a check that a Redis takes commands: while it
// loads its data it answers with an error.
func RedisAnswers(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: checkWithin}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(checkWithin)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
			return err
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			return err
		}
		if line != "+PONG\r\n" {
			return fmt.Errorf("redis: ping: %q", line)
		}
		return nil
	}
}
