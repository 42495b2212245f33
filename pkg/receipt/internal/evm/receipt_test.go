package evm_test

import (
	"testing"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
)

func TestReceipt_OutcomesAndEncodings(t *testing.T) {
	bloom, logs := make([]byte, 256), []any{[]any{recipient, []any{someHash}, input}}
	yes, no := true, false
	for _, c := range []struct {
		name    string
		raw     []byte
		success *bool
		nonce   uint64
	}{
		{"success", encode(2, 1, 21000, bloom, logs), &yes, 0},
		{"reverted", encode(0, 0, 21000, bloom, logs), &no, 0},
		{"before Byzantium: no status, which is not reverted", encode(0, someHash, 21000, bloom, logs), nil, 0},
		{"deposit before Canyon", encode(0x7e, 1, 21000, bloom, logs), &yes, 0},
		{"deposit from Canyon on", encode(0x7e, 1, 21000, bloom, logs, 77, 1), &yes, 77},
	} {
		tr, err := evm.DecodeReceipt(c.raw)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if (tr.Success == nil) != (c.success == nil) || tr.Success != nil && *tr.Success != *c.success {
			t.Errorf("%s: success %v", c.name, tr.Success)
		}
		if nonce := tr.DepositNonce; (nonce == nil) != (c.nonce == 0) || nonce != nil && *nonce != c.nonce {
			t.Errorf("%s: deposit nonce %v, want %d", c.name, nonce, c.nonce)
		}
		if tr.CumulativeGas != 21000 || len(tr.Logs) != 1 || tr.Logs[0].Address != recipient || len(tr.Logs[0].Topics) != 1 {
			t.Errorf("%s: %+v", c.name, tr)
		}
	}
}

func TestReceipt_ThatIsMisshapenIsRefused(t *testing.T) {
	bloom, none := make([]byte, 256), []any{}
	for name, raw := range map[string][]byte{
		"nothing":                       nil,
		"a status of 2":                 encode(2, 2, 21000, bloom, none),
		"a status of two bytes":         encode(2, 256, 21000, bloom, none),
		"a root of 31 bytes":            encode(2, someHash[:31], 21000, bloom, none),
		"a short bloom":                 encode(2, 1, 21000, bloom[:255], none),
		"a member less":                 encode(2, 1, 21000, bloom),
		"a nonce on another type":       encode(2, 1, 21000, bloom, none, 77, 1),
		"a deposit nonce alone":         encode(0x7e, 1, 21000, bloom, none, 77),
		"logs that are no list":         encode(2, 1, 21000, bloom, empty),
		"a log without data":            encode(2, 1, 21000, bloom, []any{[]any{recipient, none}}),
		"five topics":                   encode(2, 1, 21000, bloom, []any{[]any{recipient, []any{someHash, someHash, someHash, someHash, someHash}, empty}}),
		"a short topic":                 encode(2, 1, 21000, bloom, []any{[]any{recipient, []any{empty}, empty}}),
		"a topic list that is a string": encode(2, 1, 21000, bloom, []any{[]any{recipient, empty, empty}}),
	} {
		if tr, err := evm.DecodeReceipt(raw); err == nil {
			t.Errorf("%s: %+v", name, tr)
		}
	}
}

func TestHeader_ThatIsMisshapenIsRefused(t *testing.T) {
	members := func() []any {
		list := make([]any, 15)
		for i := range list {
			list[i] = someHash
		}
		list[8], list[11] = 1, 2
		return list
	}
	if h, err := evm.DecodeHeader(encode(0, members()...)); err != nil || h.Number != 1 || h.Timestamp != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	for name, change := range map[string]func([]any) []any{
		"a member less":     func(m []any) []any { return m[:14] },
		"far too many":      func(m []any) []any { return append(m, make([]any, 20)...) },
		"a short root":      func(m []any) []any { m[4] = empty; return m },
		"a number too wide": func(m []any) []any { m[8] = someHash; return m },
		"a time in a list":  func(m []any) []any { m[11] = []any{}; return m },
	} {
		list := change(members())
		for i := range list {
			if list[i] == nil {
				list[i] = 0
			}
		}
		if h, err := evm.DecodeHeader(encode(0, list...)); err == nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
