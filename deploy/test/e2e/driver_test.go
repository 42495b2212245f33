package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// journeyTimeout bounds a journey.
const journeyTimeout = 5 * time.Minute

// driver is a program that runs journeys in one Chromium.
type driver struct {
	cmd   *exec.Cmd
	input io.WriteCloser

	mu      sync.Mutex
	waiting []chan string // by id; each gets what went wrong, or ""
	ended   error         // nil: it runs
}

// chromiums is the driver of all journeys.
var chromiums struct {
	sync.Mutex
	*driver
}

// theDriver starts the driver at the first call.
func theDriver(node, chromium string) (*driver, error) {
	chromiums.Lock()
	defer chromiums.Unlock()
	if chromiums.driver != nil {
		return chromiums.driver, nil
	}
	d := &driver{cmd: exec.Command(node, "clients/driver.mjs")}
	d.cmd.Env = append(os.Environ(), "CHROMIUM="+chromium)
	d.cmd.Stderr = os.Stderr
	input, inputErr := d.cmd.StdinPipe()
	output, outputErr := d.cmd.StdoutPipe()
	if err := errors.Join(inputErr, outputErr); err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	d.input, chromiums.driver = input, d
	go d.listen(output)
	return d, nil
}

// listen passes what the driver answers on to those who wait.
func (d *driver) listen(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer struct {
			ID    int
			Fault string
		}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			fmt.Fprintf(os.Stderr, "driver: %s\n", lines.Bytes())
			continue
		}
		d.mu.Lock()
		d.waiting[answer.ID] <- answer.Fault
		d.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = errors.New("the program that drives Chromium has ended")
	for _, waiting := range d.waiting {
		close(waiting)
	}
}

// running has a value for each journey that runs, at most one for each processor: in a journey
// Chromium computes, while other tests mostly wait.
var running = make(chan struct{}, runtime.GOMAXPROCS(0))

// run runs a script of clients/journeys.
func (d *driver) run(t *testing.T, script string, env []string) {
	t.Helper()
	running <- struct{}{}
	defer func() { <-running }()
	variables := map[string]string{"PATH": os.Getenv("PATH")}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	done := make(chan string, 1)
	d.mu.Lock()
	request, err := json.Marshal(map[string]any{"id": len(d.waiting), "script": script, "env": variables})
	if err = errors.Join(err, d.ended); err == nil {
		d.waiting = append(d.waiting, done)
		_, err = d.input.Write(append(request, '\n'))
	}
	d.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case fault, ok := <-done:
		if !ok {
			t.Fatalf("%s: the program that drives Chromium has ended", script)
		}
		if fault != "" {
			t.Fatalf("%s: %s", script, fault)
		}
	case <-time.After(journeyTimeout):
		t.Fatalf("%s takes longer than %v", script, journeyTimeout)
	}
}

// stopDriver ends the driver and its Chromium, if they were started.
func stopDriver() {
	if d := chromiums.driver; d != nil {
		_ = d.input.Close()
		kill := time.AfterFunc(10*time.Second, func() { _ = d.cmd.Process.Kill() })
		_ = d.cmd.Wait()
		kill.Stop()
	}
}
