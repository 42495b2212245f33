package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// stateName is the name of the agent's folder among those of other programs.
const stateName = "pforte-agent"

// defaultState returns the default of --state, where cleaners of caches delete nothing: below XDG_STATE_HOME if
// that is absolute, else in the user's configuration folder on macOS, else below ~/.local/state.
// Where these are not known it is in the working directory.
func defaultState() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, stateName)
	}
	if runtime.GOOS == "darwin" {
		if dir, err := os.UserConfigDir(); err == nil {
			return filepath.Join(dir, stateName)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", stateName)
	}
	return "." + stateName
}

// formerState returns the default of --state of earlier releases, "" if it is not known.
func formerState() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, stateName)
}

// moveState moves former, the folder of an earlier release, to state, unless state exists. It leaves a link in
// its place where it can, so that a program of that release does not begin with no limits and no journal.
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
