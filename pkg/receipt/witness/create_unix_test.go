//go:build unix

package witness_test

import (
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/witness"
)

// A witness does not start with an empty file, over which Create does not write.
func TestCreate_LeavesAWholeFileOrNone(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.json")
	if err := withoutSpace(t, func() error { return witness.Create(state) }); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("without space: %v", err)
	}
	if files, err := os.ReadDir(filepath.Dir(state)); err != nil || len(files) > 0 {
		t.Errorf("without space it leaves %v, %v", files, err)
	}
	if err := witness.Create(state); err != nil {
		t.Fatal(err)
	}
	_ = open(t, state).Close()
	before := must[[]byte](t)(os.ReadFile(state))
	if err := witness.Create(state); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second time: %v", err)
	}
	if string(must[[]byte](t)(os.ReadFile(state))) != string(before) {
		t.Error("the file was written over")
	}
	if files := must[[]string](t)(filepath.Glob(filepath.Join(filepath.Dir(state), ".new-*"))); len(files) > 0 {
		t.Errorf("it leaves %v", files)
	}
}

// withoutSpace runs f while this process cannot write to files.
func withoutSpace(t *testing.T, f func() error) error {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ) // which would end the process
	defer signal.Reset(syscall.SIGXFSZ)
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &none); err != nil {
		t.Fatal(err)
	}
	err := f()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	return err
}
