package stack

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	// maxLog is the size at which a log is renamed at the next start.
	maxLog = 10 << 20
	// tailLines and tailBytes are how much of a log is shown when its program fails.
	tailLines = 15
	tailBytes = 16 << 10
)

// openLog opens a program's log for appending and marks the start in it.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600) //nolint:gosec // the caller's folder
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	if _, err := fmt.Fprintf(f, "--- started %s\n", time.Now().UTC().Format(time.RFC3339)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// lastLines returns the end of a log, as far as it can be read.
func lastLines(path string) []string {
	f, err := os.Open(path) //nolint:gosec // a log of ours
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return nil
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil || len(data) == 0 {
		return nil
	}
	if at := bytes.LastIndex(data, []byte("--- started ")); at >= 0 {
		data = data[at:] // nothing of the run before
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return lines[max(0, len(lines)-tailLines):]
}
