package chainlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/tracing"
)

// maxAnswer bounds a node's answer in bytes.
const maxAnswer = 16 << 20

type node struct {
	url  string
	http *http.Client
	// patience bounds one exchange; zero: the context alone does.
	patience time.Duration
}

// call makes one JSON-RPC call. Its errors never hold the URL, which may carry
// an access key.
func (n node) call(ctx context.Context, result any, method string, params ...any) (err error) {
	ctx, span := tracing.Call(ctx, "rpc", method)
	defer func() { span.End(tracing.Failed(err)) }()
	var a answer
	if err := n.exchange(ctx, &a, method, request(1, method, params...)); err != nil {
		return err
	}
	return a.decode(result, method)
}

// batch makes calls in one exchange, and returns their answers in the order of the calls, which
// have the ids 0, 1, … A missing answer is the zero value.
func (n node) batch(ctx context.Context, name string, calls ...map[string]any) (ordered []answer, err error) {
	ctx, span := tracing.Call(ctx, "rpc", name)
	defer func() { span.End(tracing.Failed(err)) }()
	var answers []answer
	if err := n.exchange(ctx, &answers, name, calls); err != nil {
		return nil, err
	}
	ordered = make([]answer, len(calls))
	for _, a := range answers {
		if id, err := strconv.Atoi(string(a.ID)); err == nil && id >= 0 && id < len(ordered) {
			ordered[id] = a
		}
	}
	return ordered, nil
}

func request(id int, method string, params ...any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}
}

// exchange posts content and reads the answer. name names the call in errors.
func (n node) exchange(ctx context.Context, result any, name string, content any) error {
	body, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if n.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.patience)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: the node's URL is malformed", name)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := n.http.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("%s: answer is too large", name)
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("%s: status %d, no JSON", name, response.StatusCode)
	}
	return nil
}

type answer struct {
	ID     json.RawMessage `json:"id"` // of an answer to a single call it is not looked at
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (a answer) decode(result any, method string) error {
	switch {
	case a.Error != nil:
		return fmt.Errorf("%s: node error %d: %.200s", method, a.Error.Code, a.Error.Message)
	case len(a.Result) == 0 || string(a.Result) == "null":
		return fmt.Errorf("%s: %w", method, errNull)
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("%s: result has another form: %w", method, err)
	}
	return nil
}

// errNull means that the node does not have what was requested.
var errNull = errors.New("no result")

// quantity is a JSON-RPC number: 0x and hexadecimal digits.
type quantity uint64

func (q *quantity) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return errors.New("not a quantity")
	}
	*q = quantity(n)
	return nil
}

func (q quantity) String() string { return "0x" + strconv.FormatUint(uint64(q), 16) }

type block struct {
	Number    quantity `json:"number"`
	Timestamp quantity `json:"timestamp"`
}

// entry is one event of the log.
type entry struct {
	Address         string   `json:"address"`
	Topics          []string `json:"topics"`
	Data            string   `json:"data"`
	TransactionHash string   `json:"transactionHash"`
	Removed         bool     `json:"removed"`
}

func (n node) block(ctx context.Context, tag string) (b block, err error) {
	return b, n.call(ctx, &b, "eth_getBlockByNumber", tag, false)
}
