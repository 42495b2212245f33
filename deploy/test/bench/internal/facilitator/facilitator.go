package facilitator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Server answers for one payer on one network.
type Server struct {
	Network, Payer string
	// Delay is how long each answer takes.
	Delay time.Duration

	settled atomic.Int64
}

// Settled is how many payments were settled.
func (s *Server) Settled() int64 { return s.settled.Load() }

// Serve listens on addr until ctx ends.
func (s *Server) Serve(ctx context.Context, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("facilitator: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.converse(conn)
		}
	}()
	return nil
}

// converse answers one request after the other until the caller hangs up.
func (s *Server) converse(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReaderSize(conn, 16<<10)
	for {
		path, err := skip(in)
		if err != nil {
			return
		}
		time.Sleep(s.Delay)
		if _, err := conn.Write(s.answer(path)); err != nil {
			return
		}
	}
}

// errRequest is a request that cannot be read.
var errRequest = errors.New("facilitator: cannot read a request")

// skip reads a request to its end and gives its path.
func skip(in *bufio.Reader) (path string, err error) {
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		if first {
			parts := strings.Split(text, " ")
			if len(parts) != 3 {
				return "", errRequest
			}
			path = parts[1]
			continue
		}
		name, value, _ := strings.Cut(text, ":")
		switch strings.ToLower(name) {
		case "content-length":
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return "", errRequest
			}
		case "transfer-encoding":
			return "", errRequest
		}
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return path, err
}

func (s *Server) answer(path string) []byte {
	body := ""
	switch path {
	case "/supported":
		body = fmt.Sprintf(`{"kinds":[{"x402Version":2,"scheme":"exact","network":%q}],"extensions":[],"signers":{}}`, s.Network)
	case "/verify":
		body = `{"isValid":true,"payer":"` + s.Payer + `"}`
	default:
		body = fmt.Sprintf(`{"success":true,"transaction":"0x%064x","network":%q,"payer":%q}`, s.settled.Add(1), s.Network, s.Payer)
	}
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}
