package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// pollEvery is how often it is checked whether a program is ready.
	pollEvery = 25 * time.Millisecond
	// maxLog is the size in bytes above which a log is renamed at the next start.
	maxLog = 10 << 20
	// tailLines and tailBytes are how much of a log is shown when its program fails.
	tailLines = 15
	tailBytes = 16 << 10
)

type process struct {
	program  Program
	log      string
	cmd      *exec.Cmd
	stopping atomic.Bool
	ended    chan struct{} // closed when it has ended and err is set
	err      error
}

func start(program Program, log string) (*process, error) {
	out, err := openLog(log)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	defer func() { _ = out.Close() }() // the program has its own copy
	// Its life is bounded by Stop, which is gentler than a context's kill.
	cmd := exec.CommandContext(context.Background(), program.Path, program.Args...) //nolint:gosec // of the caller
	cmd.Env = program.Env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = ownGroup()
	p := &process{program: program, log: log, cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// On a thread that lives as long as the program: the kernel ends a child when
		// the thread that started it ends.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			p.signal(syscall.SIGKILL) // at once, to what it may have started itself
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Name, err)
	}
	return p, nil
}

// waitReady returns nil when the program is ready, and a *Failure when the program or ctx ends before.
func (p *process) waitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := p.program.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.failure(p.reason())
		case <-ctx.Done():
			return p.failure(fmt.Errorf("is not ready: %w", err))
		case <-tick.C:
		}
	}
}

func (p *process) reason() error {
	if p.err == nil {
		return errors.New("ended by itself, without a fault")
	}
	return fmt.Errorf("ended by itself: %w", p.err)
}

func (p *process) failure(reason error) *Failure {
	return &Failure{Program: p.program.Name, Reason: reason, Log: p.log, Last: lastLines(p.log)}
}

// stop sends SIGTERM. When grace or ctx is over, it kills the whole group.
func (p *process) stop(ctx context.Context, grace time.Duration) {
	p.stopping.Store(true)
	p.signal(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-p.ended:
	case <-ctx.Done():
	}
	p.kill()
}

func (p *process) kill() {
	p.stopping.Store(true)
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// signal sends sig to the whole group of the program, unless the program has ended: another group may have the
// number then.
func (p *process) signal(sig syscall.Signal) {
	if !p.hasEnded() {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// openLog opens a program's log for appending and marks the start in it.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600) //nolint:gosec // the caller's folder
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f, "--- started %s\n", time.Now().UTC().Format(time.RFC3339)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lastLines returns the last lines of a log, of the last run only, as far as they can be read.
func lastLines(path string) []string {
	f, err := os.Open(path) //nolint:gosec // a log of ours
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil || len(data) == 0 {
		return nil
	}
	if at := bytes.LastIndex(data, []byte("--- started ")); at >= 0 {
		data = data[at:] // nothing of the run before
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return lines[max(0, len(lines)-tailLines):]
}
