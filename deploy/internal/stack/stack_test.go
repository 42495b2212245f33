package stack_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/pkg/freeport"
)

// TestMain is also the launcher of TestLauncher_ThatIsKilledLeavesNoProcess.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STACK_TEST_LAUNCHER"); dir != "" {
		launcher(dir)
		return
	}
	os.Exit(m.Run())
}

// shell is a program that runs a script and is ready when the script has made
// the file "ready" in dir.
func shell(name, dir, script string) stack.Program {
	return stack.Program{
		Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "DIR=" + dir},
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(dir, "ready"))
			return err
		},
	}
}

func newStack(t *testing.T) *stack.Stack {
	t.Helper()
	s, err := stack.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background(), time.Second) })
	return s
}

// pid reads the process id that a script wrote.
func pid(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// gone waits until a process has ended. A dead process without a parent may stay
// in the table for a moment.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d still runs", pid)
}

func TestStop_LeavesNoProcess(t *testing.T) {
	dir, s := t.TempDir(), newStack(t)
	program := shell("both", dir, `sleep 100 & echo $! >"$DIR/child"; echo $$ >"$DIR/own"; touch "$DIR/ready"; wait`)
	if err := s.Start(t.Context(), 10*time.Second, program); err != nil {
		t.Fatal(err)
	}
	s.Stop(t.Context(), 5*time.Second)
	gone(t, pid(t, filepath.Join(dir, "own")))
	gone(t, pid(t, filepath.Join(dir, "child")))
	select {
	case f := <-s.Died():
		t.Errorf("a stop is reported as a death: %v", f)
	default:
	}
}

func TestStop_KillsAProgramThatDoesNotListen(t *testing.T) {
	dir, s := t.TempDir(), newStack(t)
	program := shell("deaf", dir, `trap "" TERM; echo $$ >"$DIR/own"; touch "$DIR/ready"; while :; do sleep 1; done`)
	if err := s.Start(t.Context(), 10*time.Second, program); err != nil {
		t.Fatal(err)
	}
	s.Stop(t.Context(), 50*time.Millisecond)
	gone(t, pid(t, filepath.Join(dir, "own")))
}

func TestStart_ReportsLastLinesOfAProgramThatEnds(t *testing.T) {
	s := newStack(t)
	err := s.Start(t.Context(), 10*time.Second, shell("broken", t.TempDir(), "echo boom; exit 3"))
	var failure *stack.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("got %v", err)
	}
	if failure.Program != "broken" || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
	if last := failure.Last; len(last) != 2 || last[1] != "boom" {
		t.Errorf("its last lines are %q", last)
	}
}

func TestStart_FailsWhereAProgramIsNeverReady(t *testing.T) {
	s := newStack(t)
	err := s.Start(t.Context(), 100*time.Millisecond, shell("slow", t.TempDir(), "sleep 100"))
	if err == nil || !strings.Contains(err.Error(), "slow: is not ready: ") {
		t.Errorf("got %v", err)
	}
}

func TestDeath_IsReported(t *testing.T) {
	dir, s := t.TempDir(), newStack(t)
	program := shell("mortal", dir, `touch "$DIR/ready"; while [ -e "$DIR/ready" ]; do sleep 0.02; done; echo bye`)
	if err := s.Start(t.Context(), 10*time.Second, program); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ready")); err != nil {
		t.Fatal(err)
	}
	select {
	case f := <-s.Died():
		if f.Program != "mortal" || f.Last[len(f.Last)-1] != "bye" {
			t.Errorf("got %v, last lines %q", f, f.Last)
		}
	case <-time.After(5 * time.Second):
		t.Error("not reported")
	}
}

// launcher is the main function of the launcher that the next test kills.
func launcher(dir string) {
	s, err := stack.New(dir)
	if err != nil {
		panic(err)
	}
	program := shell("child", dir, `echo $$ >"$DIR/own"; touch "$DIR/ready"; exec sleep 100`)
	if err := s.Start(context.Background(), 10*time.Second, program); err != nil {
		panic(err)
	}
	time.Sleep(time.Minute)
}

func TestDeath_OfAnOptionalProgramIsNotReported(t *testing.T) {
	s, dir := newStack(t), t.TempDir()
	optional := shell("optional", dir, "echo $$ >$DIR/pid")
	optional.Optional, optional.Ready = true, func(context.Context) error { return nil }
	if err := s.Start(t.Context(), time.Minute, optional); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context(), time.Minute, shell("needed", dir, "touch $DIR/ready; while kill -0 $(cat $DIR/pid); do sleep 0.01; done; sleep 0.2; exit 3")); err != nil {
		t.Fatal(err)
	}
	if failure := <-s.Died(); failure.Program != "needed" {
		t.Errorf("%s is reported", failure.Program)
	}
}

func TestLauncher_ThatIsKilledLeavesNoProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux ends a child with its parent")
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STACK_TEST_LAUNCHER="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	child := pid(t, filepath.Join(dir, "own"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	gone(t, child)
}

func TestPort_ThatIsTakenIsNamedWithItsSetting(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	free, err := freeport.Addrs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	err = stack.Free(t.Context(), stack.Port{Program: "auth", Setting: "AUTH_PORT", Addr: addr}, stack.Port{Program: "proxy", Setting: "PROXY_PORT", Addr: free[0]})
	want := fmt.Sprintf("port %s for auth is taken: stop what listens there, or set AUTH_PORT to another", addr[strings.LastIndex(addr, ":")+1:])
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestState_ServesOneStack(t *testing.T) {
	dir := t.TempDir()
	first, err := stack.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stack.Lock(dir); !errors.Is(err, stack.ErrRunning) {
		t.Errorf("got %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := stack.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// Its number may be another process's by then.
func TestPid_IsZeroOnceTheProgramHasEnded(t *testing.T) {
	s, dir := newStack(t), t.TempDir()
	brief := shell("brief", dir, `sleep 100 & echo $! >"$DIR/child"; touch "$DIR/ready"; while [ -e "$DIR/ready" ]; do sleep 0.02; done`)
	brief.Optional = true
	if err := s.Start(t.Context(), time.Minute, brief); err != nil {
		t.Fatal(err)
	}
	if s.Pid("brief") == 0 {
		t.Error("it has no number while it runs")
	}
	if err := os.Remove(filepath.Join(dir, "ready")); err != nil {
		t.Fatal(err)
	}
	gone(t, pid(t, filepath.Join(dir, "child"))) // its group ends with it
	for deadline := time.Now().Add(5 * time.Second); s.Pid("brief") != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it keeps its number")
		}
	}
}
