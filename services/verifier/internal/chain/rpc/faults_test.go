package rpc_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
	"github.com/pforte/pforte/services/verifier/internal/chain/rpc"
)

const (
	otherHash  = "0x1111111111111111111111111111111111111111111111111111111111111111"
	ourAddress = "0x2222222222222222222222222222222222222222"
)

// faults is every way in which a node fails or lies, and its reason.
var faults = map[string]struct {
	script chaintest.Script
	want   *chain.Fault
}{
	"it answers too late":                {chaintest.Script{Delay: 3 * time.Second}, chain.ErrUnavailable},
	"it answers 500":                     {status(500), chain.ErrUnavailable},
	"it answers 403":                     {status(403), chain.ErrUnavailable},
	"it redirects":                       {status(302, "Location", "http://127.0.0.1:1/"), chain.ErrUnavailable},
	"it answers 429":                     {status(429, "Retry-After", "7"), chain.ErrRateLimited},
	"it answers with a rate limit error": {refusing("eth_getTransactionByHash", -32005, "daily request count exceeded"), chain.ErrRateLimited},
	"it answers garbage":                 {saying("<html>bad gateway</html>"), chain.ErrUnavailable},
	"it answers an empty body":           {saying(""), chain.ErrUnavailable},
	"it answers half of the JSON":        {saying(`[{"jsonrpc":"2.0","id":1,"result":"0x21`), chain.ErrUnavailable},
	"its connection breaks":              {cut(), chain.ErrUnavailable},
	"its answer is beyond 64 MiB":        {endless(), chain.ErrUnavailable},
	"its answer swells to over 64 MiB":   {bomb(), chain.ErrUnavailable},
	"it answers for other ids":           {saying(`{"jsonrpc":"2.0","id":99,"result":"0x2105"}`), chain.ErrUnavailable},
	"it has no batches and no calls":     {status(404), chain.ErrUnavailable},
	"it fails inside":                    {refusing("eth_getTransactionByHash", -32603, "internal error"), chain.ErrUnavailable},
	"its transaction is no object":       {onCall("eth_getTransactionByHash", constant("0x")), chain.ErrUnavailable},
	"its numbers are no numbers":         {edited("eth_getTransactionByHash", map[string]any{"nonce": 18}), chain.ErrUnavailable},
	"it serves another chain":            {onCall("eth_chainId", constant("0x1")), chain.ErrWrongChain},
	"it does not know the transaction":   {nothing("eth_getTransactionByHash"), chain.ErrTransactionNotFound},
	"it returns not found as an error":   {refusing("eth_getTransactionByHash", -32000, "transaction not found"), chain.ErrTransactionNotFound},
	"the transaction is pending":         {edited("eth_getTransactionByHash", map[string]any{"blockHash": nil, "blockNumber": nil, "transactionIndex": nil}), chain.ErrTransactionPending},
	"it has no receipt":                  {nothing("eth_getTransactionReceipt"), chain.ErrReceiptUnavailable},
	"it is still indexing":               {refusing("eth_getTransactionReceipt", -32000, "transaction indexing is in progress"), chain.ErrReceiptUnavailable},
	"it has pruned the transaction":      {refusing("eth_getTransactionByHash", 4444, "pruned history unavailable"), chain.ErrHistoryPruned},
	"it has pruned the block":            {refusing("eth_getBlockByNumber", 4444, "pruned history unavailable"), chain.ErrHistoryPruned},
	"it returns another transaction":     {edited("eth_getTransactionByHash", map[string]any{"hash": otherHash}), chain.ErrInconsistent},
	"it returns another receipt":         {edited("eth_getTransactionReceipt", map[string]any{"transactionHash": otherHash}), chain.ErrInconsistent},
	"transaction and receipt disagree":   {edited("eth_getTransactionReceipt", map[string]any{"blockHash": otherHash}), chain.ErrInconsistent},
	"their indexes disagree":             {edited("eth_getTransactionReceipt", map[string]any{"transactionIndex": "0x4"}), chain.ErrInconsistent},
	"the indexes are not the block's":    {both(edited("eth_getTransactionReceipt", map[string]any{"transactionIndex": "0x4"}), edited("eth_getTransactionByHash", map[string]any{"transactionIndex": "0x4"})), chain.ErrInconsistent},
	"the block has been reorganized":     {both(edited("eth_getTransactionReceipt", map[string]any{"blockHash": otherHash}), edited("eth_getTransactionByHash", map[string]any{"blockHash": otherHash})), chain.ErrNotCanonical},
	"the block is gone":                  {nothing("eth_getBlockByNumber"), chain.ErrInconsistent},
	"it returns another block":           {edited("eth_getBlockByNumber", map[string]any{"number": "0x1e8481"}), chain.ErrInconsistent},
	"it lies about the status once":      {edited("eth_getTransactionReceipt", map[string]any{"status": "0x0"}), chain.ErrInconsistent},
	"it lies about the status twice":     {both(edited("eth_getTransactionReceipt", map[string]any{"status": "0x0"}), inReceipts(editing(3, map[string]any{"status": "0x0"}))), chain.ErrIntegrity},
	"it lies about the sender":           {edited("eth_getTransactionByHash", map[string]any{"from": ourAddress}), chain.ErrIntegrity},
	"it lies about a deposit's sender":   {inBlock(0, map[string]any{"from": ourAddress}), chain.ErrIntegrity},
	"it lies about the recipient":        {inBlock(3, map[string]any{"to": ourAddress}), chain.ErrIntegrity},
	"it lies about another transaction":  {inBlock(5, map[string]any{"value": "0x1"}), chain.ErrIntegrity},
	"it lies about the header":           {edited("eth_getBlockByNumber", map[string]any{"timestamp": "0x64c76a84"}), chain.ErrIntegrity},
	"it lies about a log":                {inReceipts(editing(3, map[string]any{"logs": []any{}})), chain.ErrIntegrity},
	"a transaction is of another block":  {inBlock(5, map[string]any{"blockHash": otherHash}), chain.ErrInconsistent},
	"a transaction has another place":    {inBlock(5, map[string]any{"transactionIndex": "0x6"}), chain.ErrInconsistent},
	"a receipt has another type":         {inReceipts(editing(5, map[string]any{"type": "0x1"})), chain.ErrInconsistent},
	"its gas used is not the difference": {inReceipts(editing(5, map[string]any{"gasUsed": "0x1"})), chain.ErrInconsistent},
	"a receipt is there twice":           {inReceipts(func(list []any) []any { list[4] = list[5]; return list }), chain.ErrInconsistent},
	"a receipt has no outcome":           {inReceipts(editing(5, map[string]any{"status": nil})), chain.ErrInconsistent},
	"a receipt has another block number": {inReceipts(editing(5, map[string]any{"blockNumber": "0x1"})), chain.ErrInconsistent},
	"a type is not known":                {inBlock(5, map[string]any{"type": "0x7d"}), chain.ErrUnsupportedType},
	"a type is beyond all types":         {inBlock(5, map[string]any{"type": "0x1ff"}), chain.ErrUnsupportedType},
	"a deposit lacks its source":         {inBlock(0, map[string]any{"sourceHash": nil}), chain.ErrInconsistent},
	"a transaction is of another chain":  {inBlock(5, map[string]any{"chainId": "0x1"}), chain.ErrIntegrity},
	"the header has an AuRa seal":        {edited("eth_getBlockByNumber", map[string]any{"mixHash": nil, "nonce": nil, "step": "1", "signature": "0x"}), chain.ErrHeaderUnverifiable},
}

func constant(value any) answer {
	return func(recorded.Request, any, *recorded.Error) (any, *recorded.Error) { return value, nil }
}

func editing(index int, changes map[string]any) func([]any) []any {
	return func(list []any) []any {
		list[index] = chaintest.Edit(list[index], changes)
		return list
	}
}

// timeout is short only where the test waits for it.
func timeout(fault string) time.Duration {
	if fault == "it answers too late" {
		return 500 * time.Millisecond
	}
	return 30 * time.Second
}

func TestFault_EveryOneHasItsReason(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := baseNode(t)
			c := config(node)
			c.RPCTimeout = timeout(name)
			r := open(t, rpc.Options{Chain: c})
			node.Play(fault.script)
			_, err := r.Read(t.Context(), baseTransaction)
			wantFault(t, err, fault.want)
		})
	}
}

func TestNode_ThatIsFaultyIsReplacedByAnHonestOne(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasSuffix(name, "64 MiB") {
				t.Skip("is slow, and shows nothing new here")
			}
			faulty, honest := baseNode(t), baseNode(t)
			c := config(faulty, honest)
			c.RPCTimeout = timeout(name)
			r := open(t, rpc.Options{Chain: c})
			faulty.Play(fault.script)
			s, err := r.Read(t.Context(), baseTransaction)
			if err != nil {
				t.Fatal(err)
			}
			if s.Outcome.Status != chain.StatusSuccess || s.Block.Timestamp != 1690789347 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// TestNode_ThatRedirectsIsNotFollowed: its own address was allowed, and no other.
func TestNode_ThatRedirectsIsNotFollowed(t *testing.T) {
	node, other := baseNode(t), baseNode(t)
	r := open(t, rpc.Options{Chain: config(node)})
	node.Play(status(http.StatusTemporaryRedirect, "Location", other.URL))
	_, err := r.Read(t.Context(), baseTransaction)
	wantFault(t, err, chain.ErrUnavailable)
	if got := len(other.Exchanges()); got != 0 {
		t.Errorf("the other address was called %d times", got)
	}
}

func TestFault_ARateLimitHasARetryAfter(t *testing.T) {
	node := baseNode(t)
	r := open(t, rpc.Options{Chain: config(node)})
	node.Play(status(http.StatusTooManyRequests, "Retry-After", "7"))
	for range 2 { // by the node, then by its open circuit
		_, err := r.Read(t.Context(), baseTransaction)
		wantFault(t, err, chain.ErrRateLimited)
		if seconds, ok := chain.RetryAfter(err); !ok || seconds < 6 || seconds > 7 {
			t.Errorf("retry after %d s, %v", seconds, ok)
		}
	}
	if got := len(node.Exchanges()); got > 2 {
		t.Errorf("called %d times in spite of the limit", got)
	}
}

// A timeout above the usual one is for slow answers, not for nodes that are gone.
func TestConnection_ThatFailsIsGivenUpSoon(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	c := chain.Config{Name: "base", ID: 8453, RPCTimeout: time.Minute, Quorum: 1, RPCURLs: []string{"https://" + silent.Addr().String()}}
	began := time.Now()
	if _, err := rpc.Open(t.Context(), rpc.Options{Chain: c}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("given up after %v", took)
	}
}
