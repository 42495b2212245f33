package stack_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestEnd_WaitsForOneProgramAndLeavesTheOthers(t *testing.T) {
	s, one, other := newStack(t), t.TempDir(), t.TempDir()
	if err := s.Start(t.Context(), 10*time.Second,
		shell("one", one, `trap 'echo done >"$DIR/finished"; exit 0' TERM; echo $$ >"$DIR/own"; touch "$DIR/ready"; while :; do sleep 0.02; done`),
		shell("other", other, `echo $$ >"$DIR/own"; touch "$DIR/ready"; exec sleep 100`)); err != nil {
		t.Fatal(err)
	}
	s.End(t.Context(), "one", 5*time.Second)
	gone(t, pid(t, filepath.Join(one, "own")))
	if _, err := os.Stat(filepath.Join(one, "finished")); err != nil {
		t.Errorf("it did not finish: %v", err)
	}
	select {
	case f := <-s.Died():
		t.Errorf("reported as a death: %v", f)
	default:
	}
	s.End(t.Context(), "unknown", time.Second)
	if err := syscall.Kill(pid(t, filepath.Join(other, "own")), 0); err != nil {
		t.Errorf("the other one: %v", err)
	}
}
