package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Program is one program to run.
type Program struct {
	// Name is the program's short name: its log file's, and its name in errors.
	Name string
	// Path is the executable, Args its arguments without the name.
	Path string
	Args []string
	// Env is its whole environment, as NAME=value. Nothing is inherited.
	Env []string
	// Ready returns an error unless the program can be used.
	Ready func(context.Context) error
	// Optional is whether Died says nothing when the program ends, so that the others go on.
	Optional bool
}

// Stack is a set of running programs.
type Stack struct {
	logs    string
	died    chan *Failure
	mu      sync.Mutex
	running []*process
	closed  bool
}

// Failure is a program that ended by itself, or did not get ready.
type Failure struct {
	Program string
	Reason  error
	// Log is the path of the program's log, Last its last lines.
	Log  string
	Last []string
}

// Error names the program and the reason on one line.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Program, f.Reason) }

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Reason }

// Explain returns the error's text and, of a *Failure, the last lines of the
// program's log.
func Explain(err error) string {
	var failure *Failure
	if errors.As(err, &failure) {
		return fmt.Sprintf("%v\nThe last lines of %s:\n  %s", err, failure.Log, strings.Join(failure.Last, "\n  "))
	}
	return err.Error()
}

// New returns a stack whose programs log into the folder logs, a file each.
func New(logs string) (*Stack, error) {
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, fmt.Errorf("folder for logs: %w", err)
	}
	return &Stack{logs: logs, died: make(chan *Failure, 1)}, nil
}

// Died delivers a program that ended without being stopped, unless it is optional or another one waits
// to be received.
func (s *Stack) Died() <-chan *Failure { return s.died }

// Start starts programs and waits until all of them are ready, within the given time
// for all. The error is a *Failure when a program ended, or did not get ready in time.
func (s *Stack) Start(ctx context.Context, within time.Duration, programs ...Program) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	results := make(chan error, len(programs))
	for _, program := range programs {
		started, err := s.launch(program) //nolint:contextcheck // a program lives until it is stopped
		if err != nil {
			return err
		}
		go func() { results <- started.waitReady(ctx) }()
	}
	for range programs {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) launch(program Program) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the stack is stopped")
	}
	started, err := start(program, filepath.Join(s.logs, program.Name+".log"))
	if err != nil {
		return nil, err
	}
	s.running = append(s.running, started)
	go func() {
		<-started.ended
		if started.stopping.Load() || program.Optional {
			return
		}
		select {
		case s.died <- started.failure(started.reason()):
		default: // another one died first
		}
	}()
	return started, nil
}

// Pid returns the process id of a program that was started and has not ended, or 0.
func (s *Stack) Pid(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.running {
		if p.program.Name == name && !p.hasEnded() {
			return p.cmd.Process.Pid
		}
	}
	return 0
}

// Kill ends one program at once, as a crash would. Its end is not reported.
func (s *Stack) Kill(name string) {
	if p := s.remove(name); p != nil {
		p.kill()
	}
}

// End stops one program, as Stop stops all, and returns when it has ended. Other
// programs may be started and stopped meanwhile.
func (s *Stack) End(ctx context.Context, name string, grace time.Duration) {
	if p := s.remove(name); p != nil {
		p.stop(ctx, grace)
	}
}

// remove takes a program out of what Stop stops. Its end is not reported.
func (s *Stack) remove(name string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.running, func(p *process) bool { return p.program.Name == name })
	if at < 0 {
		return nil
	}
	p := s.running[at]
	p.stopping.Store(true)
	s.running = slices.Delete(s.running, at, at+1)
	return p
}

// Stop stops all programs, the last started first, and returns when none is
// left. Each may take grace to finish; when ctx ends before, all that is left is
// killed.
func (s *Stack) Stop(ctx context.Context, grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.running {
		p.stopping.Store(true)
	}
	for _, p := range slices.Backward(s.running) {
		p.stop(ctx, grace)
	}
	s.running = nil
}
