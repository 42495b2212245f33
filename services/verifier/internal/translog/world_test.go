package translog_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paymenttest"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
)

const host = "verifier.example"

func seeded(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// witnessServer is a witness of ours, whose answers a test may change.
type witnessServer struct {
	name   string
	signer *receiptlog.Signer
	*witness.Witness
	url   string
	asked atomic.Int32

	mu     sync.Mutex
	answer http.HandlerFunc // in place of the witness, where it is set
}

func (s *witnessServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	s.Witness.ServeHTTP(w, r)
}

func (s *witnessServer) answers(do http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = do
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// world is some witnesses and a clock. Logs share them.
type world struct {
	*testing.T
	witnesses []*witnessServer

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T, witnesses int) *world {
	t.Helper()
	w := &world{T: t, now: time.Now()}
	for i := range witnesses {
		s := &witnessServer{name: fmt.Sprintf("w%d", i)}
		var err error
		s.signer, err = receiptlog.NewWitnessSigner(s.name+".example", seeded(s.name), time.Now)
		w.must(err)
		state := filepath.Join(t.TempDir(), "state")
		w.must(witness.Create(state))
		var logs []receiptlog.Key
		for generation := range int64(3) {
			_, vkey, err := translog.Name(host, seeded("log"), generation+1)
			w.must(err)
			key, err := receiptlog.ParseLogKey(vkey)
			w.must(err)
			logs = append(logs, key)
		}
		s.Witness, err = witness.Open(witness.Options{Signer: s.signer, Logs: logs, Begin: logs, State: state})
		w.must(err)
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		s.url = server.URL
		w.witnesses = append(w.witnesses, s)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// policy is that of all witnesses, of which so many must cosign.
func (w *world) policy(quorum int) string {
	text, names := "", ""
	for _, s := range w.witnesses {
		text += fmt.Sprintf("witness %s %s %s\n", s.name, s.signer.Key, s.url)
		names += " " + s.name
	}
	if quorum == 0 {
		return text + "quorum none\n"
	}
	return text + fmt.Sprintf("group g %d%s\nquorum g\n", quorum, names)
}

// node is one process with the log.
type node struct {
	*world
	*translog.Log
	ledger *ledger.Ledger
	store  *logsql.Store
	policy string
}

func name(log int64) (origin, vkey string, err error) {
	return translog.Name(host, seeded("log"), log)
}

// openStore opens a ledger that has a log.
func openStore(t testing.TB, url string, now func() time.Time) (*ledger.Ledger, *logsql.Store) {
	t.Helper()
	l, err := ledger.Open(context.Background(), url, ledger.Options{Now: now, Log: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	store := logsql.New(logsql.Options{DB: l.DB(), Now: now})
	if _, err := store.Begin(context.Background(), name, nil); err != nil {
		t.Fatal(err)
	}
	return l, store
}

// open starts a process on a database.
func (w *world) open(url, policy string, change ...func(*translog.Options)) *node {
	w.Helper()
	l, store := openStore(w, url, w.clock)
	o := translog.Options{
		Store: store, Key: seeded("log"), Host: host, Policy: policy, Interval: time.Millisecond, Timeout: 5 * time.Second,
		Client: http.DefaultClient, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: w.clock,
	}
	for _, c := range change {
		c(&o)
	}
	log, err := translog.New(o)
	w.must(err)
	return &node{w, log, l, store, policy}
}

// onEach runs a test on SQLite and Postgres.
func onEach(t *testing.T, test func(t *testing.T, url func() string)) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		test(t, func() string { return sqldbtest.Another(t, url) })
	})
}

// signed is an answer with a signature that its name determines.
func signed(name string) []byte {
	first, second := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(name+"2"))
	value := base64.StdEncoding.EncodeToString(append(first[:], second[:]...))
	return fmt.Appendf(nil, `{"receipt":{"n":"%s"},"signature":{"algorithm":"Ed25519","keyId":"sha256:%s","payloadType":"t","value":"%s"}}`,
		name, strings.Repeat("0a", 32), value)
}

func (n *node) leaf(name string) tlog.Hash {
	n.Helper()
	e, err := receiptlog.EntryOfAnswer(signed(name))
	n.must(err)
	return e.Leaf()
}

// queue queues the entries of answers of a payment that the ledger does not have.
func (n *node) queue(names ...string) {
	n.Helper()
	for _, name := range names {
		_, err := n.ledger.Anew(context.Background(), payment.Key{}, signed(name))
		n.must(err)
	}
}

// sell stores an answer as sold.
func (n *node) sell(name string) {
	n.Helper()
	n.end(name, payment.Outcome{State: payment.Settled, Transaction: "0x1"})
}

// end begins the sale of an answer and ends it.
func (n *node) end(name string, o payment.Outcome) {
	n.Helper()
	n.must(paymenttest.Sell(n.ledger, n.clock(), name, signed(name), o))
}

// step makes a step that must succeed.
func (n *node) step() {
	n.Helper()
	n.must(n.Step(context.Background()))
}

func (n *node) head() translog.Head {
	n.Helper()
	heads, err := n.store.Heads(context.Background())
	n.must(err)
	return heads[0]
}

// readers is the policy of a reader who knows the log.
func (n *node) readers() receiptlog.Policy {
	n.Helper()
	heads, err := n.store.Heads(context.Background())
	n.must(err)
	p, err := receiptlog.ParsePolicy([]byte(translog.PolicyFor(n.policy, heads)))
	n.must(err)
	return p
}

// wantProof checks, as a stranger, that the log serves a proof of an answer.
func (n *node) wantProof(log int64, name string) receiptlog.Witnessed {
	n.Helper()
	text, err := n.Proof(context.Background(), log, n.leaf(name))
	if err != nil {
		n.Fatalf("proof of %s: %v", name, err)
	}
	proof, err := receiptlog.ParseProof(text)
	n.must(err)
	c, err := n.readers().Open(proof.Checkpoint)
	n.must(err)
	leaf := n.leaf(name)
	n.must(c.CheckInclusion(proof.Index, leaf, proof.Hashes))
	return c
}

// wantFrozen checks that a step refuses, for a reason, and gives no places.
func (n *node) wantFrozen(why string) {
	n.Helper()
	before := n.head()
	for range 2 {
		if err := n.Step(context.Background()); !errors.Is(err, translog.ErrFrozen) {
			n.Errorf("the step returned %v", err)
		}
	}
	if after := n.head(); after.Frozen != why || after.Size != before.Size {
		n.Errorf("frozen %q with %d entries, want %q with %d", after.Frozen, after.Size, why, before.Size)
	}
}

// fetch reads the log as strangers do.
func (n *node) fetch(log int64) receiptlog.Fetch {
	return func(ctx context.Context, path string) ([]byte, error) {
		if path == "checkpoint" {
			return n.Checkpoint(ctx, log)
		}
		tile, err := receiptlog.ParseTile(path)
		if err != nil {
			return nil, err
		}
		data, err := n.Tile(ctx, log, tile)
		if errors.Is(err, translog.ErrNothing) {
			err = receiptlog.ErrNoTile
		}
		return data, err
	}
}

func names(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint("receipt ", i))
	}
	return all
}
