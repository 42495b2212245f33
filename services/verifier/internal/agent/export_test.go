package agent

import (
	"context"
	"io"
	"net/http"
	"time"
)

// ServeMCP is the command mcp with another time for an answer and another transport.
func ServeMCP(ctx context.Context, args []string, within time.Duration, transport http.RoundTripper, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseMCP(args, func(string) string { return "" }, stdout)
	if err != nil {
		return err
	}
	t, err := newToolbox(o, stderr)
	if err != nil {
		return err
	}
	t.answerWithin, t.client.Transport = within, transport
	return t.serve(ctx, "v0", stdin, stdout)
}
