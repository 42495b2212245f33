//go:build linux

package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pforte/pforte/pkg/redistest"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/app"
)

// terminal returns both ends of a pseudo terminal: the user's and the program's.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// typing runs "auth user add NAME" at a terminal where the user answers each
// question, and returns the exit code, the output and what the screen shows
// of the typing.
func typing(t *testing.T, environment map[string]string, name string, answers ...string) (code int, output, shown string) {
	t.Helper()
	person, program := terminal(t)
	questions, screen := io.Pipe()
	exited := make(chan int, 1)
	go func() {
		exited <- app.Run(context.Background(), app.Process{Passwords: cheap, Process: service.Process{
			Args: []string{"user", "add", name}, Getenv: func(n string) string { return environment[n] },
			Stdin: program, Stdout: screen, Stderr: screen,
		}})
		_ = screen.Close()
	}()
	reader := bufio.NewReader(questions)
	for _, a := range answers {
		question, err := reader.ReadString(':')
		if err != nil {
			t.Fatalf("%q: %v", question, err)
		}
		output += question
		time.Sleep(200 * time.Millisecond) // a user is slower than the terminal is switched
		if _, err := io.WriteString(person, a+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	rest, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	code = <-exited
	_ = program.Close()
	echo, _ := io.ReadAll(person) // ends with an error, because the other end is closed
	return code, output + string(rest), string(echo)
}

func TestPrompt_APasswordIsTypedTwiceAndNotShown(t *testing.T) {
	t.Parallel()
	environment := settings(t, redistest.Start(t))
	code, output, shown := typing(t, environment, "anna", "battery staple", "battery staple")
	if code != 0 || !strings.Contains(output, "Password for anna:") || !strings.Contains(output, "created member anna") || strings.Contains(shown, "battery") {
		t.Errorf("got %d, output %q, shown %q", code, output, shown)
	}
	code, output, _ = typing(t, environment, "otto", "battery staple", "battery stable")
	if code != 1 || !strings.Contains(output, "differ") {
		t.Errorf("two passwords: got %d %q", code, output)
	}
}
