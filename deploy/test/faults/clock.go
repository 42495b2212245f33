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

	"github.com/pforte/pforte/deploy/test/internal/client"
)

// clockSetting names, to a program that is built with the clock of folder clock,
// the file of how far its clock is wrong. Other programs ignore it.
const clockSetting = "PFORTE_CHAOS_CLOCK"

// clock sets the clock of one program wrong, while it runs.
type clock struct{ path string }

// newClocks returns the clocks of the programs whose clock is set wrong.
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

// check returns an error unless a program's clock is one that can be set wrong: its
// answers have the date.
func (c clock) check(ctx context.Context, url string) (err error) {
	if err := c.set(48 * time.Hour); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.set(0)) }()
	answer := client.Get(ctx, url)
	if answer.Err != nil {
		return answer.Err
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil || time.Until(date) < 24*time.Hour {
		return fmt.Errorf("the clock of %s cannot be set (%w): build it as make chaos does", url, err)
	}
	return nil
}
