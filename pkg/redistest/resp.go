package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// commandTimeout bounds one command.
const commandTimeout = time.Second

// Do sends one command whose words hold no spaces, and returns the reply: its
// text, or the texts of an array one a line. The reply of a server that refuses
// is an error.
func (s *Server) Do(words ...string) (string, error) {
	conn, err := (&net.Dialer{Timeout: commandTimeout}).DialContext(context.Background(), "tcp", s.Addr())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(commandTimeout)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprint(conn, strings.Join(words, " ")+"\r\n"); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

// readReply reads one reply of the protocol RESP2.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", errors.New(text)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return "", fmt.Errorf("reply %q: %w", line, err)
	}
	if kind == '$' {
		bulk := make([]byte, max(0, n)+2)
		if n < 0 {
			return "", nil
		}
		_, err := io.ReadFull(r, bulk)
		return string(bulk[:n]), err
	}
	var items []string
	for range n {
		item, err := readReply(r)
		if err != nil {
			return "", err
		}
		items = append(items, item)
	}
	return strings.Join(items, "\n"), nil
}
