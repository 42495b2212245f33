package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/pkg/flight"
	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// MCP is how tools are served at /mcp (Model Context Protocol, streamable HTTP).
type MCP struct {
	// AnswerTimeout bounds how long a call waits for its answer. A purchase by which money may have moved
	// goes on after it. The same call with the same payment gets the answer.
	AnswerTimeout time.Duration
	// PaymentExtension has clients with the capability org.x402/payment get a challenge as a
	// result of its own type in place of a tool's error.
	PaymentExtension bool
	// Version is the program's.
	Version string
}

const mcpPath = "/mcp"

// Bounds in bytes: of a JSON-RPC message, and of the arguments of check_receipt, which may be a whole
// signed receipt and do not count for maxMessage.
const (
	maxMessage = 32 << 10
	maxChecked = 256 << 10
)

// Why a message is refused before it is a call.
var (
	errMessageTooLarge = errors.New("JSON-RPC message is too large")
	errBatch           = errors.New("JSON-RPC batch")
	errMessageID       = errors.New("JSON-RPC id is not kept")
)

// Names of the x402 transport for MCP (x402 specs/transports-v2/mcp.md): members of
// _meta, and the capability of the extension binding.
const (
	metaPayment      = "x402/payment"
	metaSettlement   = "x402/payment-response"
	paymentExtension = "org.x402/payment"
)

// maxLarge is how many messages over maxMessage are handled at once: parsed, each takes many times its
// bytes.
const maxLarge = 3

// mcpRoute serves the tools. It has no sessions, so that any replica answers any
// message, and answers in JSON in place of an event stream.
type mcpRoute struct {
	transport http.Handler
	// large has an element for each message over maxMessage that is handled now.
	large chan struct{}
	// direct has the tools that may be called without the SDK, by their names as quoted JSON strings; see directly.
	// It is empty with the payment extension.
	direct map[string]tool
	api    *api
}

func (a *api) newMCPRoute() (*mcpRoute, error) {
	tools, err := a.tools()
	if err != nil {
		return nil, err
	}
	server := a.mcpServer(tools)
	transport := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage + maxChecked,
			PropagateRequestCancellation: true,
			// Behind a proxy on the same machine every Host is a foreign one. A page that
			// rebinds its name to this service finds nothing that is not public.
			DisableLocalhostProtection: true,
		})
	m := &mcpRoute{transport: transport, large: make(chan struct{}, maxLarge), api: a, direct: map[string]tool{}}
	if !a.MCP.PaymentExtension { // the SDK knows what a client can
		for _, t := range tools {
			m.direct[strconv.Quote(t.name)] = t
		}
	}
	return m, nil
}

// serve answers one message.
func (m *mcpRoute) serve(c echo.Context) error {
	r := c.Request()
	ended := make(chan struct{})
	defer close(ended)
	caller := mcpCaller{
		hungUp: r.Context().Done(), ended: ended, address: c.RealIP(),
		id: c.Response().Header().Get(service.RequestIDHeader), done: func() {},
		links: r.Header.Get("Mcp-Protocol-Version") >= linksSince,
	}
	message, err := service.ReadBody(c.Response(), r, maxMessage+maxChecked)
	if errors.Is(err, service.ErrBodyTooLarge) {
		return errMessageTooLarge
	}
	if err != nil {
		return err
	}
	if len(message) > maxMessage {
		if err := m.api.Paywall.CountFree(caller.address); err != nil {
			return err
		}
		select {
		case m.large <- struct{}{}:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		caller.isCounted, caller.done = true, sync.OnceFunc(func() { <-m.large })
		defer caller.done()
	}
	form, message, err := readMessage(message)
	if err != nil {
		return err
	}
	if t, ok := m.directly(r.Header, form); ok {
		return m.call(c, t, form, caller)
	}
	if !isKept(form.ID) {
		return errMessageID
	}
	if caller.isCounted { // it is large, and the SDK does not get them
		caller.arguments = form.Params.Arguments
	}
	r.Body = io.NopCloser(bytes.NewReader(message))
	c.Response().Before(func() { maps.Copy(c.Response().Header(), privateNoStore) })
	m.transport.ServeHTTP(c.Response(), r.WithContext(context.WithValue(r.Context(), mcpCallerKey{}, caller)))
	return nil
}

// form is a message as far as calls of tools need it.
type form struct {
	Version json.RawMessage `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  json.RawMessage `json:"method,omitempty"`
	Params  struct {
		Name      json.RawMessage `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Meta      json.RawMessage `json:"_meta,omitempty"`
	} `json:"params"`
}

// readMessage reads a message, and returns it as the SDK gets it: one over maxMessage without the
// arguments. errBatch: it is a JSON-RPC batch. *strictjson.Error: it is not strict JSON.
// errMessageTooLarge: it is over maxMessage and no call of check_receipt, or a part is too large.
func readMessage(message []byte) (read form, forSDK []byte, err error) {
	if bytes.HasPrefix(bytes.TrimLeft(message, " \t\r\n"), []byte("[")) {
		return read, nil, errBatch
	}
	if err := strictjson.Unmarshal(message, &read, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return read, nil, err
	}
	if len(message) <= maxMessage {
		return read, message, nil
	}
	arguments := read.Params.Arguments
	isCheck := string(read.Params.Name) == `"`+toolCheckReceipt+`"`
	if !isCheck || len(arguments) > maxChecked || len(message)-len(arguments) > maxMessage {
		return read, nil, errMessageTooLarge
	}
	rest := read
	rest.Params.Arguments = nil
	forSDK, err = json.Marshal(rest)
	return read, forSDK, err
}

// directVersions are the values of the header Mcp-Protocol-Version with which a tool may be called
// without the SDK; "" stands for no header. Links to resources came with version linksSince.
var directVersions = []string{"", "2025-03-26", linksSince, "2025-11-25"}

const linksSince = "2025-06-18"

// directly returns the tool that a message calls, and whether to call it without the SDK, which is
// slower. Other messages, and calls with anything unusual about them, are left to the SDK.
func (m *mcpRoute) directly(h http.Header, f form) (tool, bool) {
	t, ok := m.direct[string(f.Params.Name)]
	if !ok || string(f.Version) != `"2.0"` || string(f.Method) != `"tools/call"` || len(f.ID) == 0 ||
		strings.IndexByte(`"0123456789`, f.ID[0]) < 0 || len(f.Params.Meta) > 0 && f.Params.Meta[0] != '{' {
		return tool{}, false
	}
	accepted := strings.Join(h.Values("Accept"), ",")
	return t, slices.Contains(directVersions, h.Get("Mcp-Protocol-Version")) && service.IsJSON(h) &&
		strings.Contains(accepted, receipt.MediaTypeJSON) && strings.Contains(accepted, "text/event-stream")
}

// isKept reports whether the SDK answers with the id of a message. It reads a number as a float64 and writes
// an int64: the client of another one would wait for its answer, and may have paid for it.
func isKept(id json.RawMessage) bool {
	number, err := strconv.ParseFloat(string(id), 64)
	return err != nil || number == math.Trunc(number) && math.Abs(number) < 1<<53
}

// call answers a call of a tool without the SDK.
func (m *mcpRoute) call(c echo.Context, t tool, f form, caller mcpCaller) error {
	var meta map[string]json.RawMessage
	if len(f.Params.Meta) > 0 {
		if err := json.Unmarshal(f.Params.Meta, &meta); err != nil { // readMessage has read it already
			return err
		}
	}
	call := toolCall{arguments: f.Params.Arguments, payment: meta[metaPayment]}
	if string(call.payment) == "null" {
		call.payment = nil
	}
	found, err := m.api.callTool(c.Request().Context(), t, caller, call)
	if err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		Version string              `json:"jsonrpc"`
		ID      json.RawMessage     `json:"id"`
		Result  *mcp.CallToolResult `json:"result"`
	}{"2.0", f.ID, found.encode()})
	if err != nil {
		return err
	}
	return answer{http.StatusOK, privateNoStore, receipt.MediaTypeJSON, body}.write(c)
}

// privateNoStore is for answers to messages, which may hold what was bought.
var privateNoStore = http.Header{"Cache-Control": {"private, no-store"}}

// mcpCaller is what a tool needs to know of the HTTP request that its call came with.
type mcpCaller struct {
	// hungUp is closed when the client hangs up, which the SDK reports to tools only
	// since the protocol's version 2026-07-28.
	hungUp <-chan struct{}
	// ended is as in paidCall.
	ended   <-chan struct{}
	address string
	id      string // of the request
	// arguments are those of the call where the SDK did not get them.
	arguments json.RawMessage
	// isCounted reports that the message, a large one, has taken an attempt.
	isCounted bool
	// links is as in toolCall.
	links bool
	// done gives back the place of a large message before its answer is written, which a client
	// may read slowly. It does nothing for other messages.
	done func()
}

type mcpCallerKey struct{}

// mcpServer returns the server of the tools. The tools validate their arguments themselves: errors of
// the SDK's validation would not have the answers of failures.
func (a *api) mcpServer(tools []tool) *mcp.Server {
	capabilities := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}}
	if a.MCP.PaymentExtension {
		capabilities.AddExtension(paymentExtension, map[string]any{})
	}
	program := &mcp.Implementation{Name: "pforte-verifier", Title: "Pforte verifier", Version: a.MCP.Version}
	server := mcp.NewServer(program, &mcp.ServerOptions{
		Instructions: "Signed, offline-checkable evidence about finalized transactions of public chains. " +
			"Paid tools cost " + a.usd() + " USD a call, paid by x402 in _meta[\"" + metaPayment + "\"]. " +
			"A call that a tool answers with an error of code 4xx charges nothing. " +
			"After an error with code 503 send the same call with the same payment again; do not pay anew.",
		Capabilities: capabilities,
	})
	for _, t := range tools {
		a.Metrics.tools.WithLabelValues(t.name, outcomeOK)
		server.AddTool(t.described(), a.answerTool(t))
	}
	a.addReceipts(server)
	server.AddReceivingMiddleware(withoutSubscriptions)
	if a.MCP.PaymentExtension {
		server.AddReceivingMiddleware(withPaymentExtension)
	}
	return server
}

// answerTool returns the handler of a tool for the SDK.
func (a *api) answerTool(t tool) mcp.ToolHandler {
	return func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		caller, ok := ctx.Value(mcpCallerKey{}).(mcpCaller)
		if !ok {
			return nil, errors.New("mcp: a call without its request")
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-caller.hungUp:
				cancel()
			case <-ctx.Done():
			}
		}()
		call := toolCall{arguments: request.Params.Arguments}
		if paid := request.Params.Meta[metaPayment]; paid != nil {
			var err error
			if call.payment, err = json.Marshal(paid); err != nil {
				return nil, fmt.Errorf("mcp: encode a payment: %w", err)
			}
		}
		if caller.arguments != nil {
			call.arguments = caller.arguments
		}
		found, err := a.callTool(ctx, t, caller, call)
		if err != nil {
			return nil, err
		}
		return found.encode(), nil
	}
}

// callTool answers a call of a tool. An error of the tool is answered as a result too, because clients
// hide errors of JSON-RPC from their models. The error is that of encoding such a result.
func (a *api) callTool(ctx context.Context, t tool, caller mcpCaller, call toolCall) (toolResult, error) {
	began := a.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, a.MCP.AnswerTimeout, payment.ErrInFlight)
	defer cancel()
	call.address, call.isCounted, call.links = caller.address, caller.isCounted, caller.links
	call.ended = caller.ended
	if len(call.arguments) == 0 || string(call.arguments) == "null" {
		call.arguments = []byte("{}")
	}
	found, err := flight.Guard(func() (toolResult, error) { return t.answer(ctx, call) })
	caller.done()
	if err != nil {
		found, err = a.toolError(t, found, err)
	}
	if err != nil {
		return toolResult{}, err
	}
	a.Metrics.toolCalled(t.name, found.outcome)
	a.logTool(ctx, t.name, found, caller, a.Now().Sub(began))
	return found, nil
}

// toolError is writeError for tools. Where a call with a payment is answered 402, the body is a
// challenge; else it is an errorBody.
func (a *api) toolError(t tool, found toolResult, err error) (toolResult, error) {
	ours := a.bodyOf(err, t.offer != nil)
	found.isError, found.outcome, found.err, found.content = true, ours.Reason, err, nil
	if !found.isPaid || ours.Code != http.StatusPaymentRequired {
		found.body, err = json.Marshal(ours)
		return found, err
	}
	found.body, err = json.Marshal(t.offer.Challenge(cmp.Or(ours.PaymentReason, ours.Reason)))
	return found, err
}

// logTool logs a call without its arguments and its payment.
func (a *api) logTool(ctx context.Context, name string, found toolResult, caller mcpCaller, took time.Duration) {
	level := slog.LevelDebug
	switch {
	case found.outcome == internal.reason:
		level = slog.LevelError
	case found.isPaid || found.err != nil:
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{
		slog.String("tool", name), slog.String("outcome", found.outcome),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("client", caller.address), slog.String("request_id", caller.id),
	}
	if found.err != nil {
		attrs = append(attrs, slog.String("error", found.err.Error()))
	}
	a.Log.LogAttrs(ctx, level, "tool call", attrs...)
}

// withoutSubscriptions refuses subscriptions/listen, which would hold its connection for as long as
// the client likes. The tools never change while the process runs.
func withoutSubscriptions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if method == "subscriptions/listen" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "there is nothing to subscribe to"}
		}
		return next(ctx, method, request)
	}
}

// paymentRequired is a challenge as clients with the capability org.x402/payment get it.
type paymentRequired struct {
	mcp.ResultBase
	ResultType      string          `json:"resultType"`
	PaymentRequired json.RawMessage `json:"paymentRequired"`
}

// withPaymentExtension answers a challenge as the extension binding has it, to clients
// that have its capability.
func withPaymentExtension(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		call, isCall := request.(*mcp.CallToolRequest)
		tool, isTool := result.(*mcp.CallToolResult)
		if err != nil || !isCall || !isTool || !tool.IsError {
			return result, err
		}
		if clients := call.ClientCapabilities(); clients == nil || clients.Extensions[paymentExtension] == nil {
			return result, nil
		}
		body, _ := tool.StructuredContent.(json.RawMessage)
		var challenge struct {
			Accepts json.RawMessage `json:"accepts"`
		}
		if json.Unmarshal(body, &challenge) != nil || challenge.Accepts == nil {
			return result, nil
		}
		return &paymentRequired{
			ResultBase: mcp.ResultBase{Meta: tool.Meta}, ResultType: "payment_required",
			PaymentRequired: body,
		}, nil
	}
}
