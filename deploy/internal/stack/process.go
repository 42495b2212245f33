package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// pollEvery is how often it is checked whether a program is ready.
const pollEvery = 25 * time.Millisecond

// process is one started program.
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
		return nil, err
	}
	defer func() { _ = out.Close() }() // the program has its own copy
	// Its life is bounded by Stop, which is gentler than a context's kill.
	cmd := exec.CommandContext(context.Background(), program.Path, program.Args...) //nolint:gosec // of the caller
	cmd.Env = program.Env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = ownGroup()
	p := &process{program: program, log: log, cmd: cmd, ended: make(chan struct{})}
	exited := make(chan error, 1)
	if err := startOnLauncher(cmd, exited); err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Name, err)
	}
	go func() {
		p.err = <-exited
		close(p.ended)
	}()
	return p, nil
}

// startOnLauncher starts a command on a thread that lives as long as the command:
// the kernel ends a child when the thread that started it ends.
func startOnLauncher(cmd *exec.Cmd, exited chan<- error) error {
	started := make(chan error, 1)
	go onOwnThread(func() {
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	})
	return <-started
}

// waitReady returns when the program can be used.
func (p *process) waitReady(ctx context.Context) error {
	var last error
	for tick := time.NewTicker(pollEvery); ; {
		if last = p.program.Ready(ctx); last == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-p.ended:
			tick.Stop()
			return p.failure(p.reason())
		case <-ctx.Done():
			tick.Stop()
			return p.failure(fmt.Errorf("is not ready: %w", last))
		case <-tick.C:
		}
	}
}

// reason returns how the program ended.
func (p *process) reason() error {
	if p.err == nil {
		return errors.New("ended by itself, without a fault")
	}
	return fmt.Errorf("ended by itself: %w", p.err)
}

func (p *process) failure(reason error) *Failure {
	return &Failure{Program: p.program.Name, Reason: reason, Log: p.log, Last: lastLines(p.log)}
}

// stop sends SIGTERM and kills the program when it does not end within grace, or
// when ctx ends.
func (p *process) stop(ctx context.Context, grace time.Duration) {
	p.stopping.Store(true)
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-ctx.Done():
	case <-timer.C:
	}
	p.kill() // and what it may have started itself
}

func (p *process) kill() {
	p.stopping.Store(true)
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// signal reaches the whole group of the program. A group that is gone already
// needs no signal.
func (p *process) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, sig)
}

// Check fails unless path is a program that can be started.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not built: run make build", path)
	}
	return nil
}
