package agent_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// soldHash is the block of the recorded answer.
const soldHash = "0xf7c65086eb140a51b0811e83ada55a91539b83462064761ad02cfaf8398eb0fe"

// blocks is an execution chain of which the block of the answer is number 7.
type blocks struct{ sold finality.Root }

// Latest implements beacontest.Execution.
func (blocks) Latest(context.Context) (uint64, error) { return 10, nil }

// Header implements beacontest.Execution.
func (b blocks) Header(_ context.Context, number uint64) (*lightclient.ExecutionPayloadHeader, error) {
	var blobs finality.Uint64
	hash := finality.Root{byte(number)}
	if number == 7 {
		hash = b.sold
	}
	return &lightclient.ExecutionPayloadHeader{
		BlockNumber: finality.Uint64(1_999_993 + number), BlockHash: hash, Timestamp: finality.Uint64(beacontest.GenesisTime + number),
		LogsBloom: make([]byte, 256), FeeRecipient: make([]byte, 20), BlobGasUsed: &blobs, ExcessBlobGas: &blobs,
	}, nil
}

// proof returns the proof that the block of the recorded answer is final, and the flags
// that trust it.
func proof(t *testing.T) (document []byte, flags []string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var sold finality.Root
	must(sold.UnmarshalText([]byte(soldHash)))
	b, err := beacontest.New(beacontest.Config{Name: "dev", ChainID: "eip155:8453", Depth: 2, Execution: blocks{sold}})
	must(err)
	head, err := b.Finalized(t.Context())
	must(err)
	boot, err := b.Bootstrap(t.Context(), head.HashTreeRoot())
	must(err)
	update, err := b.FinalityUpdate(t.Context())
	must(err)
	step, err := lightclient.NewStep(&boot.CurrentSyncCommittee, update)
	must(err)
	executed, err := lightclient.NewExecution(update.FinalizedHeader)
	must(err)
	document, err = json.Marshal(finality.Document{
		Type: finality.Type, Version: finality.Version, Chain: "eip155:8453", Network: "dev", Block: finality.Block{Number: 2_000_000, Hash: sold},
		Anchor: finality.Anchor{Kind: finality.AnchorSyncCommittee, Checkpoint: lightclient.NewCheckpoint(boot), Steps: []finality.Step{step}, Execution: executed},
		Link:   finality.Link{Kind: finality.LinkSame},
	})
	must(err)
	network, err := json.Marshal(b.Network())
	must(err)
	file := filepath.Join(t.TempDir(), "network.json")
	must(os.WriteFile(file, network, 0o600))
	return document, []string{"--finality", "--checkpoint", head.HashTreeRoot().String(), "--beacon-network", file}
}

func TestFinality_IsChecked(t *testing.T) {
	document, flags := proof(t)
	s, state := open(t, deliver(t)), t.TempDir()
	pending := true
	s.final = func(w http.ResponseWriter, r *http.Request) {
		if want := "/v1/finality/base/" + soldHash + "?checkpoint=" + flags[2]; r.URL.RequestURI() != want {
			t.Errorf("asked for %s, want %s", r.URL.RequestURI(), want)
		}
		if pending {
			pending = false
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"error":"not yet","code":202,"reason":"finality_pending","retryable":true}`))
			return
		}
		_, _ = w.Write(document)
	}
	got := s.run(state, flags...)
	if got.code != 0 || kept(t, state) != 0 || !strings.Contains(got.stdout, "final: proven from your checkpoint "+flags[2]) || !strings.Contains(got.stdout, "random sample") {
		t.Errorf("%+v, %d kept", got, kept(t, state))
	}
	got = s.run(t.TempDir(), append(flags, "--json")...)
	var printed struct {
		Verified bool
		Finality struct{ Anchor string }
	}
	if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil || !printed.Verified || printed.Finality.Anchor != finality.AnchorSyncCommittee {
		t.Errorf("%v: %s", err, got.stdout)
	}
}

func TestFinality_AProofThatDoesNotHoldIsReported(t *testing.T) {
	document, flags := proof(t)
	for name, test := range map[string]struct {
		status int
		body   string
		code   int
	}{
		"of another block":  {200, strings.Replace(string(document), `"number":"2000000"`, `"number":"2000001"`, 1), 5},
		"no document":       {200, `{}`, 5},
		"not offered":       {404, `{"error":"none","code":404,"reason":"finality_not_offered","retryable":false}`, 5},
		"not there in time": {202, `{"error":"not yet","code":202,"reason":"finality_pending","retryable":true}`, 3},
		"not available":     {503, `{"error":"no","code":503,"reason":"finality_unavailable","retryable":true}`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s, state := open(t, deliver(t)), t.TempDir()
			s.final = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "100")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}
			got := s.run(state, append(flags, "--patience", "20s")...)
			if got.code != test.code || kept(t, state) != 1 || !strings.Contains(got.stderr, "the receipt was paid for and holds") {
				t.Errorf("%+v, %d kept", got, kept(t, state))
			}
			s.final = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(document) }
			if got := s.run(state, flags...); got.code != 0 || kept(t, state) != 0 {
				t.Errorf("the same again: %+v, %d kept", got, kept(t, state))
			}
		})
	}
}

// An assistant is told whether the block is proven to be final, and has the answer either way.
func TestFinality_IsToldToAnAssistant(t *testing.T) {
	document, flags := proof(t)
	s := open(t, deliver(t))
	s.final = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	a := s.assistant(t.TempDir(), nil, flags...)
	if got := a.call("verify_transaction", asked()); got.isError || got.Payment.USD != "0.01" || got.Finality.Anchor != "" || !strings.Contains(got.text, "Not proven to be final.") {
		t.Errorf("%+v", got)
	}
	s.mu.Lock()
	s.final = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(document) }
	s.mu.Unlock()
	if got := a.call("verify_transaction", asked()); got.isError || got.Payment.USD != "0.00" || got.Finality.Anchor != finality.AnchorSyncCommittee || !strings.Contains(got.text, " Final: ") {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()
}

func TestFinality_NeedsACheckpoint(t *testing.T) {
	_, flags := proof(t)
	for _, args := range [][]string{
		{"--finality"}, {"--finality", "--checkpoint", "0x12"}, flags[1:3], {"--finality", "--checkpoint", flags[2], "--beacon-network", "/nowhere"},
	} {
		s := open(t, deliver(t))
		if got := s.run(t.TempDir(), args...); got.code != 2 || len(s.sent()) != 0 {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
