package httpapi_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
)

// openLogged serves a verifier with a log of receipts, which asks no witness and makes a
// step when a test says so.
func openLogged(t *testing.T) (*world, *logsql.Store) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))
	l, err := ledger.Open(context.Background(), "sqlite::memory:", ledger.Options{Now: func() time.Time { return start }, Log: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w := open(t, func(o *paywall.Options) { o.Ledger = l })
	w.ledger = l
	store := logsql.New(logsql.Options{DB: l.DB(), Now: w.clock})
	_, err = store.Begin(t.Context(), func(log int64) (string, string, error) { return translog.Name("verifier.example.com", key, log) }, nil)
	w.must(err)
	w.receipts, err = translog.New(translog.Options{
		Store: store, Key: key, Host: "verifier.example.com", Policy: "quorum none\n", Interval: time.Second, Timeout: time.Second,
		Client: http.DefaultClient, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: w.clock,
	})
	w.must(err)
	w.reopen()
	return w, store
}

// reads counts how many requests read the heads at once.
type reads struct {
	translog.Store
	atOnce
}

func (r *reads) Heads(ctx context.Context) ([]translog.Head, error) {
	defer r.count()()
	return r.Store.Heads(ctx)
}

// atOnce counts what is done at once.
type atOnce struct{ now, most atomic.Int32 }

// count begins something, and returns its end.
func (a *atOnce) count() (end func()) {
	now := a.now.Add(1)
	for most := a.most.Load(); now > most && !a.most.CompareAndSwap(most, now); most = a.most.Load() {
	}
	for range 1000 {
		runtime.Gosched()
	}
	return func() { a.now.Add(-1) }
}

func TestLog_IsUnavailableWhileTheLedgerIsAway(t *testing.T) {
	w, store := openLogged(t)
	w.must(w.ledger.(*ledger.Ledger).Close())
	if _, err := store.Heads(t.Context()); err == nil {
		t.Fatal("the log is open without its ledger")
	}
	for _, path := range []string{"/.well-known/receipt-log.json", "/v1/log/1/checkpoint", "/v1/log/1/tile/0/000.p/1", "/v1/log/1/proof/" + strings.Repeat("0", 64)} {
		r := w.do(http.MethodGet, path, "")
		if f := r.wantFailure(http.StatusServiceUnavailable, "ledger_unavailable"); !*f.Retryable || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", path, r.body)
		}
	}
}

// Whatever is read of the log, free and without a login, leaves connections for purchases.
func TestLog_FewReadItAtOnce(t *testing.T) {
	w, l := openLogged(t)
	counted := &reads{Store: l}
	o := w.receipts.Options
	o.Store = counted
	w.check = compressed(t, checkHTML)
	var err error
	w.receipts, err = translog.New(o)
	w.must(err)
	w.reopen()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			path := []string{"/.well-known/receipt-log.json", "/v1/log/1/checkpoint", "/v1/log/1/tile/0/000.p/1", "/v1/log/1/proof/" + strings.Repeat("0", 64), checkPath}[i%5]
			if r := w.do(http.MethodGet, path, ""); r.status != http.StatusOK && r.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, r.status)
			}
		})
	}
	all.Wait()
	if most := counted.most.Load(); most > 4 {
		t.Errorf("%d read at once", most)
	}
}

func proofPath(t *testing.T, answer []byte) string {
	t.Helper()
	e, err := receiptlog.EntryOfAnswer(answer)
	if err != nil {
		t.Fatal(err)
	}
	leaf := e.Leaf()
	return "/v1/log/1/proof/" + hex.EncodeToString(leaf[:])
}

func (r reply) wantCached(mediaType, cache string) {
	r.Helper()
	if r.status != http.StatusOK || r.header.Get("Content-Type") != mediaType || r.header.Get("Cache-Control") != cache ||
		r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Content-Length") != strconv.Itoa(len(r.body)) {
		r.Errorf("%d %v: %.80q", r.status, r.header, r.body)
	}
}

func TestLog_ASoldReceiptHasAProof(t *testing.T) {
	w, _ := openLogged(t)
	sold := w.buy("1")
	sold.wantReceipt(w)
	path := proofPath(t, sold.body)
	pending := w.do(http.MethodGet, path, "")
	if f := pending.wantFailure(http.StatusAccepted, "log_pending"); f.RetryAfterSeconds != 2 || pending.header.Get("Retry-After") != "2" {
		t.Errorf("%+v", f)
	}
	w.must(w.receipts.Step(t.Context()))
	proof := w.do(http.MethodGet, path, "")
	proof.wantCached("text/plain; charset=utf-8", "max-age=60")
	list := w.do(http.MethodGet, "/.well-known/receipt-log.json", "")
	list.wantCached("application/json", "max-age=300")
	d, err := receiptlog.ParseDirectory(list.body)
	w.must(err)
	policy, err := receiptlog.ParsePolicy([]byte(d.Policy))
	w.must(err)
	doc, err := receipt.Parse(sold.body)
	w.must(err)
	keys, err := receipt.NewKeyDocument(w.key, "eip155:8453")
	w.must(err)
	if result, err := receiptlog.Verify(doc, keys, proof.body, policy); err != nil || result.Index != 0 || result.Origin != "verifier.example.com/v1/log/1" {
		t.Errorf("%+v, %v", result, err)
	}
	if r := w.do(http.MethodGet, "/.well-known/receipt-log.json", "", "If-None-Match", list.header.Get("ETag")); r.status != http.StatusNotModified {
		t.Errorf("the list with its tag: %d", r.status)
	}
	checkpoint := w.do(http.MethodGet, "/v1/log/1/checkpoint", "")
	checkpoint.wantCached("text/plain; charset=utf-8", "max-age=2")
	if !bytes.HasSuffix(proof.body, checkpoint.body) {
		t.Errorf("the proof has another checkpoint than\n%s", checkpoint.body)
	}
	if head := w.do(http.MethodHead, "/v1/log/1/checkpoint", ""); head.status != http.StatusOK || len(head.body) != 0 || head.header.Get("Content-Length") != strconv.Itoa(len(checkpoint.body)) {
		t.Errorf("HEAD: %d %v", head.status, head.header)
	}
	w.do(http.MethodGet, "/v1/log/1/tile/0/000.p/1", "").wantCached("application/octet-stream", "max-age=3600")
	w.do(http.MethodGet, "/v1/log/1/tile/entries/000.p/1", "").wantCached("application/octet-stream", "max-age=3600")
}

func TestLog_AFullTileIsCachedForGood(t *testing.T) {
	w, l := openLogged(t)
	signature := make([]byte, ed25519.SignatureSize)
	var entries [][]byte
	for n := range 256 {
		e, err := receiptlog.NewReceiptEntry("sha256:"+strings.Repeat("0a", 32), signature, fmt.Append(nil, n))
		w.must(err)
		entries = append(entries, e.Bytes())
	}
	_, err := l.Extend(t.Context(), 1, 0, entries)
	w.must(err)
	w.must(w.receipts.Step(t.Context()))
	for path, size := range map[string]int{"tile/0/000": 256 * 32, "tile/1/000.p/1": 32, "tile/entries/000": 256 * 145} {
		r := w.do(http.MethodGet, "/v1/log/1/"+path, "")
		cache := "max-age=31536000, immutable"
		if strings.Contains(path, ".p/") {
			cache = "max-age=3600"
		}
		if r.wantCached("application/octet-stream", cache); len(r.body) != size {
			t.Errorf("%s has %d bytes, want %d", path, len(r.body), size)
		}
	}
}

func TestLog_WhatItDoesNotHaveIsNotFound(t *testing.T) {
	w, _ := openLogged(t)
	leaf := strings.Repeat("ab", 32)
	w.do(http.MethodGet, "/v1/log/1/checkpoint", "").wantFailure(http.StatusNotFound, "not_found") // none is published yet
	w.must(w.receipts.Step(t.Context()))
	for path, reason := range map[string]string{
		"1/proof/" + leaf: "log_unknown_leaf", "1/proof/" + strings.ToUpper(leaf): "log_unknown_leaf", "1/proof/ab": "log_unknown_leaf",
		"2/proof/" + leaf: "not_found", "2/checkpoint": "not_found", "01/checkpoint": "not_found", "0/checkpoint": "not_found", "x/checkpoint": "not_found",
		"1/tile/0/000.p/1": "not_found", "1/tile/0/000": "not_found", "1/tile/0/0": "not_found", "1/tile/entries/000.p/1": "not_found",
		"1/tile/8/000": "not_found", "1/tile/0/x001/x002/x003/x004/005.p/7": "not_found", "1/tile/": "not_found", "1/other": "not_found",
	} {
		w.do(http.MethodGet, "/v1/log/"+path, "").wantFailure(http.StatusNotFound, reason)
	}
	w.do(http.MethodPost, "/v1/log/1/checkpoint", "{}").wantFailure(http.StatusMethodNotAllowed, "method_not_allowed")
	if log := w.logged.String(); strings.Contains(log, "cannot be read") {
		t.Errorf("the ledger was read, and the log is %s", log)
	}
}

func TestLog_WhileFrozenSalesGoOnAndProofsDoNot(t *testing.T) {
	w, l := openLogged(t)
	w.must(w.receipts.Step(t.Context()))
	w.must(l.Freeze(t.Context(), 1, translog.FrozenRestored))
	sold := w.buy("1")
	sold.wantReceipt(w)
	frozen := w.do(http.MethodGet, proofPath(t, sold.body), "")
	if f := frozen.wantFailure(http.StatusServiceUnavailable, "log_frozen"); !*f.Retryable || frozen.header.Get("Retry-After") == "" {
		t.Errorf("%+v", f)
	}
	w.do(http.MethodGet, "/v1/log/1/checkpoint", "").wantCached("text/plain; charset=utf-8", "max-age=2")
}

func TestLog_IsNotOfferedWhereThereIsNone(t *testing.T) {
	w := open(t, nil)
	for _, path := range []string{"/.well-known/receipt-log.json", "/v1/log/1/checkpoint", "/v1/log/1/tile/0/000", "/v1/log/1/proof/" + strings.Repeat("ab", 32)} {
		w.do(http.MethodGet, path, "").wantFailure(http.StatusNotFound, "log_not_offered")
	}
	for path := range w.described().Paths {
		if strings.Contains(path, "log") {
			t.Errorf("%s is described", path)
		}
	}
}

func TestLog_LeavesTheAnswerTheSame(t *testing.T) {
	with, _ := openLogged(t)
	without := open(t, nil)
	a, b := with.buy("1"), without.buy("1")
	for _, volatile := range []string{"Date", "X-Request-Id"} {
		a.header.Del(volatile)
		b.header.Del(volatile)
	}
	if !bytes.Equal(a.body, b.body) || fmt.Sprint(a.header) != fmt.Sprint(b.header) {
		t.Errorf("with a log it is %v\n%s\nand without %v\n%s", a.header, a.body, b.header, b.body)
	}
}

func TestLog_PathsAreDescribed(t *testing.T) {
	w, _ := openLogged(t)
	doc := w.described()
	for path, statuses := range map[string][]string{
		"/.well-known/receipt-log.json":      {"200", "304"},
		"/v1/log/{log}/checkpoint":           {"200", "404"},
		"/v1/log/{log}/tile/{level}/{index}": {"200", "404"},
		"/v1/log/{log}/proof/{leaf}":         {"200", "202", "404", "503"},
	} {
		responses := doc.Paths[path]["get"].Responses
		for _, status := range statuses {
			if _, described := responses[status]; !described || len(responses) != len(statuses) {
				t.Errorf("%s: %s of %d is not described", path, status, len(responses))
			}
		}
	}
}
