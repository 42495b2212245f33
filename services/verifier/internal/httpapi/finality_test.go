package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain/bundlesql"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/beacon"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
)

// The block of the recorded transaction, and its place in the execution chain.
const soldNumber, soldAt = 2_000_000, 7

// execution is an execution chain of eleven blocks, of which number 7 is the sold one.
type execution struct{ sold finality.Root }

// Latest implements beacontest.Execution.
func (execution) Latest(context.Context) (uint64, error) { return soldAt + 3, nil }

// Header implements beacontest.Execution.
func (e execution) Header(_ context.Context, number uint64) (*lightclient.ExecutionPayloadHeader, error) {
	var blobs finality.Uint64
	hash := finality.Root{byte(number)}
	if number == soldAt {
		hash = e.sold
	}
	return &lightclient.ExecutionPayloadHeader{
		BlockNumber: finality.Uint64(soldNumber - soldAt + number), BlockHash: hash, Timestamp: finality.Uint64(beacontest.GenesisTime + number),
		LogsBloom: make([]byte, 256), FeeRecipient: make([]byte, 20), BlobGasUsed: &blobs, ExcessBlobGas: &blobs,
	}, nil
}

// noBlocks is a chain whose nodes prove nothing.
type noBlocks struct{}

var errNoBlocks = errors.New("no node answers")

func (noBlocks) Headers(context.Context, uint64, uint64, chain.Hash) ([][]byte, error) {
	return nil, errNoBlocks
}

func (noBlocks) StorageProof(context.Context, uint64, chain.Hash, chain.Address, chain.Hash) (header []byte, account, storage [][]byte, err error) {
	return nil, nil, nil, errNoBlocks
}

func (noBlocks) BlockNumber(context.Context, chain.Hash) (uint64, error) { return 0, errNoBlocks }

// openFinal serves a verifier with proofs of finality, which follows the beacon chain and
// makes bundles when a test says so.
func openFinal(t *testing.T) (*world, *bundlesql.Store, *beacontest.Beacon) {
	t.Helper()
	w := open(t, nil)
	var sold finality.Root
	w.must(sold.UnmarshalText([]byte(blockOf(w.buy("1").body).Hash)))
	l, err := ledger.Open(context.Background(), "sqlite::memory:", ledger.Options{Now: func() time.Time { return start }, Finality: []string{"eip155:8453"}})
	w.must(err)
	t.Cleanup(func() { _ = l.Close() })
	w = open(t, func(o *paywall.Options) { o.Ledger = l })
	store := bundlesql.New(l.DB(), w.clock)
	b, err := beacontest.New(beacontest.Config{Name: "dev", ChainID: "eip155:8453", Depth: 2, Execution: execution{sold}})
	w.must(err)
	server := httptest.NewServer(b.Handler())
	t.Cleanup(server.Close)
	node, err := beacon.Open(server.URL, 0)
	w.must(err)
	w.finality, err = beaconchain.New(beaconchain.Options{
		Name: "base", Network: b.Network(), Nodes: []chain.BeaconNode{node}, Blocks: noBlocks{}, Store: store, Failed: func(string) {},
		Log: slog.New(slog.DiscardHandler), Now: w.clock,
	})
	w.must(err)
	w.reopen()
	return w, store, b
}

// bundleReads counts how many requests read bundles at once.
type bundleReads struct {
	beaconchain.Store
	atOnce
}

func (r *bundleReads) Bundle(ctx context.Context, chain string, block finality.Root) (beaconchain.Bundle, error) {
	defer r.count()()
	return r.Store.Bundle(ctx, chain, block)
}

// What is asked about proofs of finality, free and without a login, leaves connections for
// purchases.
func TestFinality_FewReadProofsAtOnce(t *testing.T) {
	w, l, _ := openFinal(t)
	counted := &bundleReads{Store: l}
	o := w.finality.Options
	o.Store = counted
	var err error
	w.finality, err = beaconchain.New(o)
	w.must(err)
	w.reopen()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			w.do(http.MethodGet, "/v1/finality/base/0x"+strings.Repeat("0", 64), "").wantFailure(http.StatusNotFound, "finality_unknown")
		})
	}
	all.Wait()
	if most := counted.most.Load(); most > 4 {
		t.Errorf("%d read at once", most)
	}
}

// hung is a beacon node that does not answer about checkpoints until it may.
type hung struct {
	chain.BeaconNode
	asked, leave chan struct{}
}

func (h hung) Bootstrap(context.Context, finality.Root) (*lightclient.Bootstrap, error) {
	h.asked <- struct{}{}
	<-h.leave
	return nil, errNoBlocks
}

// Anybody may name a checkpoint that only nodes know.
func TestFinality_WhatIsKeptIsServedWhileNodesHang(t *testing.T) {
	w, _, b := openFinal(t)
	path := "/v1/finality/base/" + blockOf(w.buy("1").body).Hash
	w.must(w.finality.Follow(t.Context()))
	w.must(w.finality.MakeBundles(t.Context()))
	head, err := b.Finalized(t.Context())
	w.must(err)
	named := "?checkpoint=" + head.HashTreeRoot().String()
	w.do(http.MethodGet, path+named, "") // from now on it is kept
	o := w.finality.Options
	node := hung{o.Nodes[0], make(chan struct{}, 10), make(chan struct{})}
	o.Nodes = []chain.BeaconNode{node}
	w.finality, err = beaconchain.New(o)
	w.must(err)
	w.reopen()
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			w.do(http.MethodGet, fmt.Sprintf("%s?checkpoint=0x%064x", path, i+1), "").
				wantFailure(http.StatusServiceUnavailable, "finality_unavailable")
		})
	}
	<-node.asked
	time.Sleep(100 * time.Millisecond) // so that the others wait too
	for query, within := range map[string]time.Duration{
		"": 3 * time.Second, named: 3 * time.Second, "?checkpoint=0x" + strings.Repeat("cd", 32): 10 * time.Second,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path+query, http.NoBody)
		w.must(err)
		response, err := http.DefaultClient.Do(request)
		if err != nil || (response.StatusCode == http.StatusOK) != (within == 3*time.Second) {
			t.Errorf("%q: %v", query, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
		cancel()
	}
	close(node.leave)
	all.Wait()
}

func blockOf(answer []byte) receipt.Block {
	var read struct{ Receipt struct{ Block receipt.Block } }
	_ = json.Unmarshal(answer, &read) // the tests see it
	return read.Receipt.Block
}

func TestFinality_ASoldBlockHasAProof(t *testing.T) {
	w, _, b := openFinal(t)
	sold := w.buy("1")
	sold.wantReceipt(w)
	link := sold.header.Get("Link")
	path := "/v1/finality/base/" + blockOf(sold.body).Hash
	if want := "<" + path + `>; rel="describedby"; type="application/vnd.chain-evidence.finality.v1+json"`; link != want {
		t.Errorf("Link: %s, want %s", link, want)
	}
	pending := w.do(http.MethodGet, path, "")
	if f := pending.wantFailure(http.StatusAccepted, "finality_pending"); f.RetryAfterSeconds != 5 || pending.header.Get("Retry-After") != "5" {
		t.Errorf("%+v", f)
	}
	w.must(w.finality.Follow(t.Context()))
	w.must(w.finality.MakeBundles(t.Context()))
	head, err := b.Finalized(t.Context())
	w.must(err)
	checkpoint := head.HashTreeRoot()
	got := w.do(http.MethodGet, path+"?checkpoint="+checkpoint.String(), "")
	got.wantCached(finality.MediaType, "public, max-age=300")
	d, err := finality.Parse(got.body)
	w.must(err)
	doc, err := receipt.Parse(sold.body)
	w.must(err)
	if result, err := finality.Verify(&doc.Receipt, d, finality.Trust{Checkpoint: checkpoint, Network: b.Network()}); err != nil || uint64(result.Block.Number) != soldNumber {
		t.Errorf("%+v, %v", result, err)
	}
	if r := w.do(http.MethodGet, path, ""); r.status != http.StatusOK || r.header.Get("ETag") == "" {
		t.Errorf("without a checkpoint: %d %v", r.status, r.header)
	}
	if r := w.do(http.MethodGet, path+"?checkpoint="+checkpoint.String(), "", "If-None-Match", got.header.Get("ETag")); r.status != http.StatusNotModified || len(r.body) != 0 {
		t.Errorf("with its tag: %d %s", r.status, r.body)
	}
	if r := w.do(http.MethodHead, path, ""); r.status != http.StatusOK || len(r.body) != 0 {
		t.Errorf("HEAD: %d", r.status)
	}
	for _, query := range []string{"?checkpoint=0x" + strings.Repeat("ab", 32), "?checkpoint=", "?checkpoint=0xAB", "?checkpoint=" + checkpoint.String() + "&checkpoint=" + checkpoint.String()} {
		w.do(http.MethodGet, path+query, "").wantFailure(http.StatusUnprocessableEntity, "checkpoint_unknown")
	}
	b.Break(beacontest.Faults{Down: true})
	if f := w.do(http.MethodGet, path+"?checkpoint=0x"+strings.Repeat("cd", 32), "").wantFailure(http.StatusServiceUnavailable, "finality_unavailable"); !*f.Retryable {
		t.Errorf("%+v", f)
	}
}

// A payment may name another chain than the path's first: of that one there are no proofs here.
func TestFinality_TheLinkIsOfTheChainThatIsProven(t *testing.T) {
	w, _, _ := openFinal(t)
	w.more = []string{"eip3009-devnet"}
	w.reopen()
	about := `{"payment":{"response":` + paidResponse + `,"sent":` + paidSent + `}}`
	name, value := w.v2("1")
	sold := w.do(http.MethodPost, transfersAlias, about, name, value)
	if link := sold.header.Get("Link"); sold.status != http.StatusOK || link != "" {
		t.Errorf("%d, Link: %s", sold.status, link)
	}
}

func TestFinality_WhatHasNoProofIsNotFound(t *testing.T) {
	w, l, _ := openFinal(t)
	w.must(w.finality.Follow(t.Context()))
	hash := "0x" + strings.Repeat("ab", 32)
	for path, reason := range map[string]string{
		"base/" + hash: "finality_unknown", "base/" + strings.ToUpper(hash): "finality_unknown", "base/x": "finality_unknown",
		"other/" + hash: "finality_not_offered", "eip155:8453/" + hash: "finality_not_offered", "base": "not_found", "base/" + hash + "/x": "not_found",
	} {
		w.do(http.MethodGet, "/v1/finality/"+path, "").wantFailure(http.StatusNotFound, reason)
	}
	w.do(http.MethodPost, "/v1/finality/base/"+hash, "{}").wantFailure(http.StatusMethodNotAllowed, "method_not_allowed")
	sold := w.buy("1")
	w.must(w.finality.MakeBundles(t.Context()))
	w.must(l.Prune(t.Context(), start.Add(time.Hour)))
	w.do(http.MethodGet, "/v1/finality/base/"+blockOf(sold.body).Hash, "").wantFailure(http.StatusNotFound, "finality_expired")
}

func TestFinality_IsNotOfferedWithoutBeaconNodes(t *testing.T) {
	w := open(t, nil)
	w.do(http.MethodGet, "/v1/finality/base/0x"+strings.Repeat("ab", 32), "").wantFailure(http.StatusNotFound, "finality_not_offered")
	for path := range w.described().Paths {
		if strings.Contains(path, "finality") {
			t.Errorf("%s is described", path)
		}
	}
	for _, page := range []string{"/llms.txt", "/openapi.json"} {
		if text := string(w.do(http.MethodGet, page, "").body); strings.Contains(text, "/v1/finality") || strings.Contains(text, "FinalityDocument") {
			t.Errorf("%s names proofs of finality", page)
		}
	}
}

func TestFinality_LeavesTheReceiptTheSame(t *testing.T) {
	with, _, _ := openFinal(t)
	without := open(t, nil)
	a, b := with.buy("1"), without.buy("1")
	if !strings.Contains(a.header.Get("Link"), "/v1/finality/") || b.header.Get("Link") != "" {
		t.Errorf("Link: %q, and without %q", a.header.Get("Link"), b.header.Get("Link"))
	}
	for _, differs := range []string{"Date", "X-Request-Id", "Link"} {
		a.header.Del(differs)
		b.header.Del(differs)
	}
	if !bytes.Equal(a.body, b.body) || fmt.Sprint(a.header) != fmt.Sprint(b.header) {
		t.Errorf("with proofs it is %v\n%s\nand without %v\n%s", a.header, a.body, b.header, b.body)
	}
}

func TestFinality_IsDescribed(t *testing.T) {
	w, _, _ := openFinal(t)
	responses := w.described().Paths["/v1/finality/{chain}/{block}"]["get"].Responses
	for status, reasons := range map[string][]string{
		"200": nil, "202": {"finality_pending"}, "304": nil, "404": {"finality_not_offered", "finality_unknown", "finality_expired"},
		"422": {"checkpoint_unknown", "checkpoint_too_old"}, "503": {"finality_unavailable", "ledger_unavailable"},
	} {
		var described []string
		for _, part := range responses[status].Content["application/json"].Schema.AllOf {
			described = append(described, part.Properties.Reason.Enum...)
		}
		if _, ok := responses[status]; !ok || !slices.Equal(described, reasons) || len(responses) != 6 {
			t.Errorf("%s of %d: %v is described", status, len(responses), described)
		}
	}
	if text := string(w.do(http.MethodGet, "/llms.txt", "").body); !strings.Contains(text, publicURL+"/v1/finality/base/{block hash}?checkpoint={root}") {
		t.Errorf("llms.txt:\n%s", text)
	}
}
