package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// clockSetting names, to a program that is built with the clock of folder clock,
// the file that says how far its clock is wrong. Other programs do not know it.
const clockSetting = "PFORTE_CHAOS_CLOCK"

// clock turns the clock of one program, while it runs.
type clock struct{ path string }

// newClocks makes the clocks of the programs whose clock is turned.
func newClocks(state string) (map[string]clock, error) {
	clocks := map[string]clock{}
	var faults error
	for _, program := range []string{"auth", "verifier"} {
		clocks[program] = clock{path: filepath.Join(state, program+"-clock")}
		faults = errors.Join(faults, clocks[program].set(0))
	}
	return clocks, faults
}

// set makes the clock wrong by so much. The program has the file in its memory:
// it is written to, and never replaced.
func (c clock) set(by time.Duration) error {
	file, err := os.OpenFile(c.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by)), 0)
	return errors.Join(err, file.Close())
}

// turns fails unless a program's clock is one that can be turned: its answers
// have the date.
func (c clock) turns(ctx context.Context, url string) (err error) {
	if err := c.set(48 * time.Hour); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.set(0)) }()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	says, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil || time.Until(says) < 24*time.Hour {
		return fmt.Errorf("the clock of %s cannot be turned (%w): build it as make chaos does", url, err)
	}
	return nil
}
