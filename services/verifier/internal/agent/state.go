package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// stateName is the agent's folder among those of other programs.
const stateName = "pforte-agent"

// defaultState returns the folder of the journal and of the limits: where programs keep what must
// last, which cleaners of caches leave alone (XDG Base Directory Specification).
func defaultState() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, stateName)
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		if dir, err := os.UserConfigDir(); err == nil {
			return filepath.Join(dir, stateName)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", stateName)
	}
	return "." + stateName
}

// formerState returns the folder that earlier releases kept their state in, "" for none.
func formerState() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, stateName)
}

// moveState moves what a release before has kept to its new folder, unless there is one, and leaves
// a link in its place: a program of that release must not begin with no limits and no journal.
func moveState(former, state string) error {
	if former == "" || former == state {
		return nil
	}
	info, err := os.Lstat(former)
	if err != nil || !info.IsDir() { // none, or the link
		return nil
	}
	if _, err := os.Stat(state); err == nil {
		return nil
	}
	if err = os.MkdirAll(filepath.Dir(state), 0o700); err == nil {
		err = os.Rename(former, state)
	}
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist): // another process was first
		return nil
	case err != nil:
		return fmt.Errorf("move what is kept in %s: %w; move it yourself, or name it with --state", former, err)
	}
	_ = os.Symlink(state, former) // where links may not be made, the new release goes on without
	return nil
}
