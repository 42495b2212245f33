// Package logging makes the structured logger of a program from its LOG_LEVEL.
//
// It owns the format (one JSON object a line) and the levels. What is logged is
// for the caller to choose, and never a password, cookie, token, session id,
// signature or payment header.
package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/pforte/pforte/pkg/tracing"
)

// New returns a logger that writes JSON lines to w from the given level on:
// debug, info, warn or error, in any case; empty means info. A line that is
// written with the context of a traced request has its trace_id.
func New(w io.Writer, level string) (*slog.Logger, error) {
	threshold, ok := map[string]slog.Level{
		"debug": slog.LevelDebug, "": slog.LevelInfo, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"error": slog.LevelError,
	}[strings.ToLower(level)]
	if !ok {
		return nil, fmt.Errorf("LOG_LEVEL: %q is none of debug, info, warn, error", level)
	}
	return slog.New(traced{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: threshold})}), nil
}

// traced adds the id of the trace that a line's context belongs to.
type traced struct{ slog.Handler }

// Handle implements slog.Handler.
func (h traced) Handle(ctx context.Context, line slog.Record) error {
	if id := tracing.ID(ctx); id != "" {
		line.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
