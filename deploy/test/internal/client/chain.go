package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// Chain reads a chain by JSON-RPC, past every service.
type Chain struct{ URL string }

// Call calls a method and reads its result.
func (c Chain) Call(ctx context.Context, result any, method string, params ...any) error {
	var answer struct{ Result, Error json.RawMessage }
	call := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
	if a := Post(ctx, c.URL, call); a.Err != nil {
		return fmt.Errorf("%s: %w", method, a.Err)
	} else if err := json.Unmarshal(a.Body, &answer); err != nil || len(answer.Error) > 0 {
		return fmt.Errorf("%s: %s: %w", method, a.Body, err)
	}
	return json.Unmarshal(answer.Result, result)
}

// Income returns how much of the token the payee holds, in atomic units.
func (c Chain) Income(ctx context.Context) (uint64, error) {
	const balanceOf = "0x70a08231" // balanceOf(address)
	var balance Quantity
	data := balanceOf + strings.Repeat("0", 24) + strings.ToLower(layout.Payee[2:])
	err := c.Call(ctx, &balance, "eth_call", map[string]string{"to": layout.Token, "data": data}, "latest")
	return uint64(balance), err
}

// Quantity is a number as JSON-RPC writes it: 0x and hexadecimal digits.
type Quantity uint64

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *Quantity) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*q = Quantity(n)
	return err
}
