package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// redisCommand asks Redis itself, past what stands before it, and gives the
// first line of its answer.
func redisCommand(ctx context.Context, addr string, words ...string) (string, error) {
	lines, err := redisLines(ctx, addr, words...)
	return lines[0], err
}

// redisKeys gives the keys of a pattern.
func redisKeys(ctx context.Context, addr, pattern string) ([]string, error) {
	lines, err := redisLines(ctx, addr, "KEYS", pattern)
	return lines[1:], err
}

// redisLines gives the first line of an answer, and the texts of its array.
func redisLines(ctx context.Context, addr string, words ...string) ([]string, error) {
	none := []string{""}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return none, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return none, err
	}
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return none, err
	}
	reader := bufio.NewReader(conn)
	line := func() string { text, _ := reader.ReadString('\n'); return strings.TrimSpace(text) }
	lines := []string{line()}
	if lines[0] == "" || lines[0][0] == '-' {
		return none, errors.New("redis: " + lines[0])
	}
	if count, array := strings.CutPrefix(lines[0], "*"); array {
		n, err := strconv.Atoi(count)
		if err != nil {
			return none, err
		}
		for range n {
			line() // its length
			lines = append(lines, line())
		}
	}
	return lines, nil
}

// containsID tells whether a list of users has an id.
func containsID(list []byte, id int64) bool {
	var answer struct {
		Data []struct {
			ID int64 `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(list, &answer) != nil {
		return false
	}
	for _, user := range answer.Data {
		if user.ID == id {
			return true
		}
	}
	return false
}
