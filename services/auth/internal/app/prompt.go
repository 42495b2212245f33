package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxPasswordLine bounds a line of standard input: 1024 characters and more.
const maxPasswordLine = 8 << 10

// newPassword prompts for a password twice at a terminal, and reads the first
// line of any other standard input.
func (p Process) newPassword(username string) (string, error) {
	if f, ok := p.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return p.promptTwice(int(f.Fd()), username)
	}
	line, err := bufio.NewReader(io.LimitReader(p.Stdin, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read password: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("no password on standard input")
	}
	return line, nil
}

func (p Process) promptTwice(fd int, username string) (string, error) {
	first, err := p.prompt(fd, "Password for "+username+": ")
	if err != nil {
		return "", err
	}
	second, err := p.prompt(fd, "The same again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two passwords differ")
	}
	return first, nil
}

func (p Process) prompt(fd int, text string) (string, error) {
	_, _ = io.WriteString(p.Stderr, text)
	typed, err := term.ReadPassword(fd)
	_, _ = io.WriteString(p.Stderr, "\n")
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	return string(typed), nil
}
