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

// newPassword asks for a password twice at a terminal, and takes the first line
// of any other standard input.
func (p Process) newPassword(whose string) (string, error) {
	if f, ok := p.Stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return p.ask(int(f.Fd()), whose)
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

func (p Process) ask(fd int, whose string) (string, error) {
	first, err := p.askOnce(fd, "Password for "+whose+": ")
	if err != nil {
		return "", err
	}
	second, err := p.askOnce(fd, "The same again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two passwords differ")
	}
	return first, nil
}

func (p Process) askOnce(fd int, prompt string) (string, error) {
	_, _ = io.WriteString(p.Stderr, prompt)
	typed, err := term.ReadPassword(fd)
	_, _ = io.WriteString(p.Stderr, "\n")
	if err != nil {
		return "", fmt.Errorf("read password: %w", err)
	}
	return string(typed), nil
}
