package beaconchain_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/beacon"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// recording returns a recorded answer of a node of mainnet.
func (w *world) recording(name string) []byte {
	w.Helper()
	f, err := os.Open("testdata/mainnet-" + name + ".json.gz")
	w.must(err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	w.must(err)
	text, err := io.ReadAll(z)
	w.must(err)
	return text
}

// mainnet answers as a node of mainnet with recorded answers, by their paths.
func (w *world) mainnet(answers map[string][]byte) http.Handler {
	n := finality.Mainnet()
	spec := map[string]string{
		"SECONDS_PER_SLOT": "12", "SLOTS_PER_EPOCH": "32", "EPOCHS_PER_SYNC_COMMITTEE_PERIOD": "256",
		"SYNC_COMMITTEE_SIZE": "512", "DEPOSIT_CHAIN_ID": "1",
	}
	for _, fork := range n.Forks {
		version, err := fork.Version.MarshalText()
		w.must(err)
		name := strings.ToUpper(fork.Name)
		spec[name+"_FORK_VERSION"], spec[name+"_FORK_EPOCH"] = string(version), strconv.FormatUint(uint64(fork.Epoch), 10)
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch answer, there := answers[r.URL.RequestURI()]; {
		case there:
			_, _ = rw.Write(answer)
		case r.URL.Path == "/eth/v1/beacon/genesis":
			writeJSON(rw, map[string]any{"data": map[string]any{"genesis_time": "1606824023", "genesis_validators_root": n.GenesisValidatorsRoot}})
		case r.URL.Path == "/eth/v1/config/spec":
			writeJSON(rw, map[string]any{"data": spec})
		default:
			rw.WriteHeader(http.StatusNotFound)
		}
	})
}

// The update of period 1573 that a node of mainnet kept as its best one hands over nothing.
func TestFollow_BeginsAnewWhereTheRecordedUpdateOfAPeriodHandsOverNothing(t *testing.T) {
	w := newWorld(t)
	const api = "/eth/v1/beacon/light_client/"
	kept, err := lightclient.ParseBootstrap(w.recording("1573-bootstrap"))
	w.must(err)
	checkpoint := lightclient.NewCheckpoint(kept)
	text, err := json.Marshal(checkpoint)
	w.must(err)
	w.must(w.ledger.KeepCheckpoint(t.Context(), payment.FinalityCheckpoint{
		Chain: "eip155:1", Root: payment.Digest(checkpoint.Root), Slot: uint64(checkpoint.Header.Slot), Period: 1573, Own: true, Checkpoint: text,
	}))
	newer, err := lightclient.ParseBootstrap(w.recording("1600-bootstrap"))
	w.must(err)
	pinned := newer.Header.Beacon.HashTreeRoot()
	var updates []map[string]json.RawMessage
	w.must(json.Unmarshal(w.recording("1600-updates"), &updates))
	update, err := json.Marshal(updates[0])
	w.must(err)
	answers := map[string][]byte{
		api + "updates?start_period=1573&count=1": w.recording("1573-updates"),
		api + "updates?start_period=1600&count=1": w.recording("1600-updates"),
		api + "bootstrap/" + pinned.String():      w.recording("1600-bootstrap"),
		api + "finality_update":                   update,
	}
	url, swap := w.swapped(w.mainnet(answers))
	node, err := beacon.Open(url, 0)
	w.must(err)
	w.chain, err = beaconchain.New(beaconchain.Options{
		Name: "ethereum", Network: finality.Mainnet(), Nodes: []chain.BeaconNode{node}, Blocks: w.blocks, Store: w.ledger,
		Failed: w.fail, Log: slog.New(slog.DiscardHandler), Now: w.clock,
	})
	w.must(err)
	w.must(w.chain.Follow(t.Context()))
	if n := w.failures(beaconchain.CauseHandover); n != 1 {
		t.Errorf("%d missing handovers are counted", n)
	}
	w.must(w.chain.Follow(t.Context()))
	last := w.recording("1601-finality-update")
	answers[api+"finality_update"] = last
	swap(w.mainnet(answers))
	w.must(w.chain.Follow(t.Context()))
	if n := w.failures(beaconchain.CauseHandover); n != 1 {
		t.Errorf("%d missing handovers are counted", n)
	}
	final, err := lightclient.ParseFinalityUpdate(last)
	w.must(err)
	block := final.FinalizedHeader.Execution
	w.sellOn("eip155:1", uint64(block.BlockNumber), common.Hash(block.BlockHash))
	w.must(w.chain.MakeBundles(t.Context()))
	document, err := w.chain.Document(t.Context(), "client", block.BlockHash, &pinned)
	w.must(err)
	d, err := finality.Parse(document)
	w.must(err)
	result, err := finality.VerifyBlock(d, finality.Trust{Checkpoint: pinned, Network: finality.Mainnet()})
	w.must(err)
	if result.FirstPeriod != 1600 || result.LastPeriod != 1601 {
		t.Errorf("%+v", result)
	}
}

func TestFollow_BeginsAnewWhenNoNodeHandsOver(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(66) // period 1 has just begun
	w.must(w.chain.Follow(t.Context()))
	w.node.Break(beacontest.Faults{EarlyUpdates: true})
	w.execution.head.Store(185) // period 2 began at 128, and four epochs of 8 slots are over
	w.must(w.chain.Follow(t.Context()))
	w.must(w.chain.Follow(t.Context()))
	if n := w.failures(beaconchain.CauseHandover); n != 1 {
		t.Errorf("%d missing handovers are counted", n)
	}
	w.sell(182)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(182, w.checkpoint(180))
	w.chain = w.open(w.node.url) // what is kept begins there too
	w.must(w.chain.Follow(t.Context()))
	w.node.Break(beacontest.Faults{})
	w.execution.head.Store(200)
	w.must(w.chain.Follow(t.Context()))
	if n := w.failures(beaconchain.CauseHandover); n != 1 {
		t.Errorf("%d missing handovers are counted", n)
	}
}

func TestFollow_TakesTheHandoverOfTheNodeThatHasIt(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(66)
	w.must(w.chain.Follow(t.Context()))
	early := w.beacon("dev", "electra")
	early.Break(beacontest.Faults{EarlyUpdates: true})
	w.chain = w.open(early.url, w.node.url)
	w.execution.head.Store(185)
	w.must(w.chain.Follow(t.Context()))
	if n := w.failures(beaconchain.CauseHandover); n != 0 {
		t.Errorf("%d missing handovers are counted", n)
	}
	w.sell(182)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(182, w.checkpoint(65)) // from period 0
}

// Where to begin is a node's word: one that is away for a moment may have the handover.
func TestFollow_WaitsForANodeThatIsAwayBeforeItBeginsAnew(t *testing.T) {
	w := newWorld(t)
	w.execution.head.Store(66)
	w.must(w.chain.Follow(t.Context()))
	w.node.Break(beacontest.Faults{EarlyUpdates: true})
	away := w.beacon("dev", "electra")
	away.Break(beacontest.Faults{Down: true})
	w.chain = w.open(w.node.url, away.url)
	w.execution.head.Store(185)
	if w.chain.Follow(t.Context()) == nil {
		t.Error("it did not wait")
	}
	if w.failures(beaconchain.CauseHandover) != 1 {
		t.Error("the missing handover is not counted")
	}
	n := w.node.Network()
	w.advance(time.Duration(5*n.SlotsPerEpoch*n.SecondsPerSlot) * time.Second)
	w.must(w.chain.Follow(t.Context()))
	w.must(w.chain.Follow(t.Context()))
	w.sell(182)
	w.must(w.chain.MakeBundles(t.Context()))
	w.wantFinal(182, w.checkpoint(180))
}
