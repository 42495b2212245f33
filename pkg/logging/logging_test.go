package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/tracing"
	"github.com/pforte/pforte/pkg/tracing/tracingtest"
)

func TestLog_LevelsAndFormat(t *testing.T) {
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

func TestLog_NamesTheTraceOfARequest(t *testing.T) {
	c := tracingtest.New(t)
	tracer, err := tracing.Start(t.Context(), tracing.Options{
		Settings: tracing.Settings{Endpoint: c.URL}, Service: "auth", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Stop(t.Context())
	ctx, _ := tracer.Request(httptest.NewRequest(http.MethodGet, "/", nil), http.MethodGet, "/")
	var out bytes.Buffer
	log, err := logging.New(&out, "info")
	if err != nil {
		t.Fatal(err)
	}
	log = log.With("chain", "base").WithGroup("node")
	for _, c := range []struct {
		ctx  context.Context //nolint:containedctx // what is tested
		want string
	}{{ctx, tracing.ID(ctx)}, {context.Background(), ""}} {
		out.Reset()
		log.InfoContext(c.ctx, "called")
		var line struct {
			Chain string
			Node  struct {
				TraceID string `json:"trace_id"`
			}
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Chain != "base" || line.Node.TraceID != c.want {
			t.Errorf("got %s, %v", &out, err)
		}
	}
}

func TestLevel_ThatIsUnknownIsAFault(t *testing.T) {
	if _, err := logging.New(nil, "loud"); err == nil {
		t.Error("no fault")
	}
}
