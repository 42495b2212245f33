package logging

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// New returns a logger that writes JSON lines to w from the given level on:
// debug, info, warn or error, in any case; empty means info. A line that is
// written with the context of a traced request has its trace_id.
func New(w io.Writer, level string) (*slog.Logger, error) {
	threshold, err := parse(level)
	if err != nil {
		return nil, err
	}
	return slog.New(traced{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: threshold})}), nil
}

func parse(level string) (slog.Level, error) {
	switch strings.ToLower(level) {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("LOG_LEVEL: %q is none of debug, info, warn, error", level)
}
