package devnet_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/freeport"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

func TestProgram_PrintsWhatItServesAndStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	settings := map[string]string{"RPC_ADDR": free(t), "FACILITATOR_ADDR": free(t), "BEACON_ADDR": free(t)}
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var stderr bytes.Buffer
	p := service.Process{Getenv: func(name string) string { return settings[name] }, Stdout: in, Stderr: &stderr}
	go func() {
		ended <- devnet.Run(ctx, p)
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %d, %s", err, <-ended, &stderr)
	}
	var printed map[string]string
	if err := json.Unmarshal([]byte(line), &printed); err != nil || printed["rpc"] != "http://"+settings["RPC_ADDR"] || printed["network"] != "eip155:84532" {
		t.Errorf("%s: %v", line, err)
	}
	healthcheck := service.Process{Args: []string{"healthcheck"}, Getenv: p.Getenv, Stdout: io.Discard, Stderr: io.Discard}
	if code := devnet.Run(ctx, healthcheck); code != 0 {
		t.Errorf("healthcheck: %d", code)
	}
	ask(t, printed["beacon"]+"/eth/v1/beacon/genesis")
	if files, err := os.ReadDir(temp); err != nil || len(files) != 0 {
		t.Errorf("it writes files: %v, %v", files, err)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("%d, %s", code, &stderr)
	}
}

func TestProgram_HelpNamesEverySetting(t *testing.T) {
	run := func(out io.Writer, getenv func(string) string, args ...string) int {
		return devnet.Run(t.Context(), service.Process{Args: args, Getenv: getenv, Stdout: out, Stderr: io.Discard, Version: "v0"})
	}
	var out bytes.Buffer
	none := func(string) string { return "" }
	if code := run(&out, none, "--help"); code != 0 || !strings.Contains(out.String(), "FINALITY_DEPTH") {
		t.Errorf("%d, %s", code, &out)
	}
	out.Reset()
	if code := run(&out, none, "--version"); code != 0 || out.String() != "devnet v0\n" {
		t.Errorf("%d, %s", code, &out)
	}
	for _, args := range [][]string{{"--what"}, {"network", "more"}} {
		if run(io.Discard, none, args...) != 1 {
			t.Errorf("%v was taken", args)
		}
	}
	if run(io.Discard, func(name string) string { return map[string]string{"BLOCK_TIME": "10ms"}[name] }) != 1 {
		t.Error("blocks faster than their clock were taken")
	}
}

func free(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addrs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}
