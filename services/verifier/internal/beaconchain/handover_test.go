package beaconchain_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/services/verifier/internal/beaconchain"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/beacon"
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

// mainnet answers as a node of mainnet with recorded answers, by their paths, and counts how
// often it is asked.
func (w *world) mainnet(answers map[string][]byte, asked *atomic.Int64) http.Handler {
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
		asked.Add(1)
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

// followMainnet follows the recordings: first the update of period 1600, and then that of
// period 1601, whose finalized block is sold. It returns the root of
// the finalized block of period 1600, the sold block, and how often the node was asked.
func (w *world) followMainnet() (pinned finality.Root, block *lightclient.ExecutionPayloadHeader, asked *atomic.Int64) {
	w.Helper()
	const api = "/eth/v1/beacon/light_client/"
	older, err := lightclient.ParseBootstrap(w.recording("1573-bootstrap"))
	w.must(err)
	newer, err := lightclient.ParseBootstrap(w.recording("1600-bootstrap"))
	w.must(err)
	pinned = newer.Header.Beacon.HashTreeRoot()
	var updates []json.RawMessage
	w.must(json.Unmarshal(w.recording("1600-updates"), &updates))
	answers := map[string][]byte{
		api + "updates?start_period=1573&count=1":                        w.recording("1573-updates"),
		api + "updates?start_period=1600&count=1":                        w.recording("1600-updates"),
		api + "bootstrap/" + older.Header.Beacon.HashTreeRoot().String(): w.recording("1573-bootstrap"),
		api + "bootstrap/" + pinned.String():                             w.recording("1600-bootstrap"),
		api + "finality_update":                                          updates[0],
	}
	asked = new(atomic.Int64)
	url, swap := w.swapped(w.mainnet(answers, asked))
	node, err := beacon.Open(url, 0)
	w.must(err)
	w.chain, err = beaconchain.New(beaconchain.Options{
		Name: "ethereum", Network: finality.Mainnet(), Nodes: []chain.BeaconNode{node}, Blocks: w.blocks, Store: w.store,
		Failed: w.fail, Log: slog.New(slog.DiscardHandler), Now: w.clock,
	})
	w.must(err)
	w.must(w.chain.Follow(w.Context()))
	w.must(w.chain.Follow(w.Context()))
	last := w.recording("1601-finality-update")
	answers = maps.Clone(answers)
	answers[api+"finality_update"] = last
	swap(w.mainnet(answers, asked))
	w.must(w.chain.Follow(w.Context()))
	final, err := lightclient.ParseFinalityUpdate(last)
	w.must(err)
	block = final.FinalizedHeader.Execution
	w.sellOn("eip155:1", uint64(block.BlockNumber), common.Hash(block.BlockHash))
	w.must(w.chain.MakeBundles(w.Context()))
	return pinned, block, asked
}

// The update of period 1573 that a node of mainnet kept as its best one hands over nothing.
func TestFollow_BeginsAnewWhereTheRecordedUpdateOfAPeriodHandsOverNothing(t *testing.T) {
	w := newWorld(t)
	kept, err := lightclient.ParseBootstrap(w.recording("1573-bootstrap"))
	w.must(err)
	checkpoint := lightclient.NewCheckpoint(kept)
	text, err := json.Marshal(checkpoint)
	w.must(err)
	w.must(w.store.KeepCheckpoint(t.Context(), beaconchain.Checkpoint{
		Chain: "eip155:1", Root: checkpoint.Root, Slot: uint64(checkpoint.Header.Slot), Period: 1573, Own: true, Checkpoint: text,
	}))
	pinned, block, _ := w.followMainnet()
	if n := w.failures(beaconchain.CauseHandover); n != 1 {
		t.Errorf("%d missing handovers are counted", n)
	}
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

// That of period 1573 is 27 periods before the block.
func TestDocument_ACheckpointThatIsTooOldCostsOneCall(t *testing.T) {
	w := newWorld(t)
	_, block, asked := w.followMainnet()
	boot, err := lightclient.ParseBootstrap(w.recording("1573-bootstrap"))
	w.must(err)
	root := boot.Header.Beacon.HashTreeRoot()
	before := asked.Load()
	for range 30 {
		_, err := w.chain.Document(t.Context(), "client", block.BlockHash, &root)
		w.want(err, beaconchain.ErrCheckpointTooOld)
	}
	if n := asked.Load() - before; n != 1 {
		t.Errorf("the node was asked %d times", n)
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
