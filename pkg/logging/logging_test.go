package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/pforte/pforte/pkg/logging"
)

func TestLevelsAndFormat(t *testing.T) {
	for level, lowest := range map[string]slog.Level{
		"": slog.LevelInfo, "debug": slog.LevelDebug, "INFO": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		var out bytes.Buffer
		log, err := logging.New(&out, level)
		if err != nil {
			t.Fatal(err)
		}
		if !log.Enabled(context.Background(), lowest) || log.Enabled(context.Background(), lowest-1) {
			t.Errorf("%q does not begin at %s", level, lowest)
		}
		log.Error("stop", "port", 1)
		var line struct {
			Msg  string
			Port int
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "stop" || line.Port != 1 {
			t.Errorf("%q: %v, %v", out.String(), line, err)
		}
	}
}

func TestAnUnknownLevelIsAFault(t *testing.T) {
	if _, err := logging.New(nil, "loud"); err == nil {
		t.Error("no fault")
	}
}
