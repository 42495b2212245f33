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
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

func TestProgram_PrintsWhatItServesAndStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	settings := map[string]string{"RPC_ADDR": free(t), "FACILITATOR_ADDR": free(t), "BEACON_ADDR": free(t)}
	out, in := io.Pipe()
	ended := make(chan error, 1)
	var stderr bytes.Buffer
	go func() {
		ended <- devnet.Run(ctx, "v0", nil, func(name string) string { return settings[name] }, in, &stderr)
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v", err, <-ended)
	}
	var printed map[string]string
	if err := json.Unmarshal([]byte(line), &printed); err != nil || printed["rpc"] != "http://"+settings["RPC_ADDR"] || printed["network"] != "eip155:84532" {
		t.Errorf("%s: %v", line, err)
	}
	if err := devnet.Run(ctx, "v0", []string{"healthcheck"}, func(name string) string { return settings[name] }, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
	ask(t, printed["beacon"]+"/eth/v1/beacon/genesis")
	if files, err := os.ReadDir(temp); err != nil || len(files) != 0 {
		t.Errorf("it writes files: %v, %v", files, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestProgram_HelpNamesEverySetting(t *testing.T) {
	var out bytes.Buffer
	none := func(string) string { return "" }
	if err := devnet.Run(t.Context(), "v0", []string{"--help"}, none, &out, io.Discard); err != nil || !strings.Contains(out.String(), "FINALITY_DEPTH") {
		t.Errorf("%v, %s", err, &out)
	}
	if err := devnet.Run(t.Context(), "v0", []string{"--what"}, none, io.Discard, io.Discard); err == nil {
		t.Error("an unknown argument was taken")
	}
	bad := func(name string) string { return map[string]string{"BLOCK_TIME": "10ms"}[name] }
	if err := devnet.Run(t.Context(), "v0", nil, bad, io.Discard, io.Discard); err == nil {
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
