package beacontest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// chain is an execution chain of this many blocks beside the genesis block. It begins
// with period 1000, and its block 100 and what follows is 600 seconds late.
type chain uint64

// slot returns that of a block.
func slot(number uint64) uint64 {
	if number >= 100 {
		number += 600
	}
	return 1000*64 + number
}

func (c chain) Latest(context.Context) (uint64, error) { return uint64(c), nil }

func (c chain) Header(_ context.Context, number uint64) (*lightclient.ExecutionPayloadHeader, error) {
	if number > uint64(c) {
		return nil, errors.New("no such block")
	}
	var blobs finality.Uint64
	return &lightclient.ExecutionPayloadHeader{
		BlockNumber: finality.Uint64(number), BlockHash: hash(number), Timestamp: finality.Uint64(beacontest.GenesisTime + slot(number)),
		LogsBloom: make([]byte, 256), FeeRecipient: make([]byte, 20), BaseFeePerGas: lightclient.Uint256{7},
		BlobGasUsed: &blobs, ExcessBlobGas: &blobs,
	}, nil
}

func hash(number uint64) finality.Root {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte("block"), number))
}

// node is a beacon node that is asked over HTTP, as others ask it.
type node struct {
	*beacontest.Beacon
	server *httptest.Server
}

func newNode(t *testing.T, fork string, blocks uint64) node {
	t.Helper()
	b, err := beacontest.New(beacontest.Config{Name: "beacontest", ChainID: "eip155:1337", Fork: fork, Depth: 2, Execution: chain(blocks)})
	if err != nil {
		t.Fatal(err)
	}
	n := node{b, httptest.NewServer(b.Handler())}
	t.Cleanup(n.server.Close)
	return n
}

// get returns the status and the body of an answer.
func (n node) get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	resp, err := http.Get(n.server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// need returns the body of a 200.
func (n node) need(t *testing.T, format string, args ...any) []byte {
	t.Helper()
	path := fmt.Sprintf(format, args...)
	status, body := n.get(t, path)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	return body
}

// checkpoint returns the root of the beacon block of a number.
func (n node) checkpoint(t *testing.T, number uint64) finality.Root {
	t.Helper()
	b, err := beacontest.New(beacontest.Config{Name: "beacontest", Fork: n.Network().LastFork().Name, Depth: 2, Execution: chain(number + 2)})
	if err != nil {
		t.Fatal(err)
	}
	h, err := b.Finalized(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h.HashTreeRoot()
}

// document makes what leads from a checkpoint to the finalized block, as a collector
// makes it: one update for each period that is over, then the latest.
func (n node) document(t *testing.T, checkpoint finality.Root) *finality.Document {
	t.Helper()
	boot, err := lightclient.ParseBootstrap(n.need(t, "/eth/v1/beacon/light_client/bootstrap/%s", checkpoint))
	if err != nil {
		t.Fatal(err)
	}
	d := &finality.Document{
		Type: finality.Type, Version: finality.Version, Chain: n.Network().ChainID, Network: n.Network().Name,
		Anchor: finality.Anchor{Kind: finality.AnchorSyncCommittee, Checkpoint: lightclient.NewCheckpoint(boot)},
		Link:   finality.Link{Kind: finality.LinkSame},
	}
	latest, err := lightclient.ParseFinalityUpdate(n.need(t, "/eth/v1/beacon/light_client/finality_update"))
	if err != nil {
		t.Fatal(err)
	}
	step := func(signer *lightclient.SyncCommittee, u *lightclient.Update) finality.Step {
		s, err := lightclient.NewStep(signer, u)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	signer, network := &boot.CurrentSyncCommittee, n.Network()
	for p := network.Period(uint64(boot.Header.Beacon.Slot)); p < network.Period(uint64(latest.SignatureSlot)); p++ {
		list, err := lightclient.ParseUpdates(n.need(t, "/eth/v1/beacon/light_client/updates?start_period=%d&count=1", p))
		if err != nil || len(list) != 1 {
			t.Fatalf("period %d: %d updates, %v", p, len(list), err)
		}
		d.Anchor.Steps = append(d.Anchor.Steps, step(signer, list[0]))
		signer = list[0].NextSyncCommittee
	}
	d.Anchor.Steps = append(d.Anchor.Steps, step(signer, latest))
	if d.Anchor.Execution, err = lightclient.NewExecution(latest.FinalizedHeader); err != nil {
		t.Fatal(err)
	}
	return d
}

func (n node) verify(t *testing.T, checkpoint finality.Root, block uint64) (*finality.Result, error) {
	t.Helper()
	d := n.document(t, checkpoint)
	d.Block = finality.Block{Number: finality.Uint64(block), Hash: hash(block)}
	return finality.VerifyBlock(d, finality.Trust{Checkpoint: checkpoint, Network: n.Network()})
}

// The execution chain has no blocks in 8 of the 12 periods.
func TestBeacon_VerifiesOverManyCommittees(t *testing.T) {
	for fork, back := range map[string]uint64{"electra": 0, "fulu": 0, "gloas": 1} { // in Gloas a body names its parent's block
		n := newNode(t, fork, 150)
		got, err := n.verify(t, n.checkpoint(t, 10), 147-back)
		if err != nil {
			t.Errorf("%s: %v", fork, err)
			continue
		}
		if got.FirstPeriod != 1000 || got.LastPeriod != 1011 || got.LeastSigners != 508 || uint64(got.FinalizedSlot) != slot(147) {
			t.Errorf("%s: %+v", fork, got)
		}
	}
}

func TestBeacon_EachFaultIsFound(t *testing.T) {
	n := newNode(t, "", 150)
	checkpoint := n.checkpoint(t, 10)
	for _, c := range []struct {
		faults beacontest.Faults
		want   error
	}{
		{beacontest.Faults{}, nil},
		{beacontest.Faults{Signers: 342}, nil},
		{beacontest.Faults{Signers: 300}, finality.ErrTooFewSigners},
		{beacontest.Faults{WrongSignature: true}, finality.ErrSignature},
		{beacontest.Faults{OtherNetwork: true}, finality.ErrSignature},
		{beacontest.Faults{WrongBlock: true}, finality.ErrLink},
		{beacontest.Faults{EarlyUpdates: true}, finality.ErrCommittee},
	} {
		text, err := json.Marshal(c.faults)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, n.server.URL+"/faults", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusNoContent {
			t.Fatalf("%v, %v", resp, err)
		}
		if _, err := n.verify(t, checkpoint, 147); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.faults, err, c.want)
		}
	}
}

// An update early in its period proves finality but hands over nothing; later ones do.
func TestBeacon_ABetterUpdateReplacesThatOfItsPeriod(t *testing.T) {
	for _, c := range []struct{ latest, period, attested, finalized uint64 }{
		{65, 1001, slot(64), slot(62)},
		{66, 1001, slot(65), slot(63)},
		{67, 1001, slot(66), slot(64)},
		{99, 1001, slot(98), slot(96)},
		{100, 1001, slot(98), slot(96)}, // the period is over
		{101, 1010, slot(100), slot(98)},
		{103, 1010, slot(102), slot(100)},
		{200, 1010, slot(102), slot(100)},
		{100, 1002, 1003*64 - 2, 1003*64 - 3}, // without blocks
		{100, 990, 991*64 - 2, 991*64 - 3},    // before the first block
	} {
		u, err := newNode(t, "", c.latest).Update(t.Context(), c.period)
		if err != nil {
			t.Errorf("at %d: %v", c.latest, err)
			continue
		}
		if a, f := uint64(u.AttestedHeader.Beacon.Slot), uint64(u.FinalizedHeader.Beacon.Slot); a != c.attested || f != c.finalized {
			t.Errorf("at %d: attested %d, finalized %d", c.latest, a, f)
		}
	}
}

func TestBeacon_WhatTheNodeDoesNotHave(t *testing.T) {
	n := newNode(t, "", 128)
	unknown := finality.Root{1}
	const api = "/eth/v1/beacon/light_client/"
	for path, status := range map[string]int{
		api + "updates?start_period=1010&count=2":          200,
		api + "updates?start_period=1011&count=2":          500, // as Lodestar: part of the range is in the future
		api + "updates?start_period=2000&count=1":          500,
		api + "updates?start_period=x&count=1":             400,
		api + "updates?start_period=1000&count=0":          400,
		api + "bootstrap/" + unknown.String():              404,
		api + "bootstrap/" + n.checkpoint(t, 127).String(): 404, // not final
		api + "bootstrap/" + n.checkpoint(t, 126).String(): 200,
		api + "bootstrap/head":                             400,
		api + "finality_update":                            200,
		"/eth/v1/beacon/headers/head":                      404,
	} {
		if got, body := n.get(t, path); got != status {
			t.Errorf("%s: %d %.200s", path, got, body)
		}
	}
	for path, status := range map[string]int{
		api + "updates?start_period=1010&count=1": 500, // the first block of the period is not signed
		api + "updates?start_period=1001&count=1": 200,
	} {
		if got, body := newNode(t, "", 100).get(t, path); got != status {
			t.Errorf("%s: %d %.200s", path, got, body)
		}
	}
	for blocks, statuses := range map[uint64][2]int{0: {404, 404}, 2: {404, 404}, 3: {200, 404}, 4: {200, 200}} {
		young := newNode(t, "", blocks)
		header, _ := young.get(t, "/eth/v1/beacon/headers/finalized")
		update, _ := young.get(t, api+"finality_update")
		if got := [2]int{header, update}; got != statuses {
			t.Errorf("with %d blocks: %d", blocks, got)
		}
	}
	n.Break(beacontest.Faults{Withhold: true})
	if status, _ := n.get(t, "/eth/v1/beacon/light_client/finality_update"); status != 404 {
		t.Errorf("withheld: %d", status)
	}
	if status, body := n.get(t, "/eth/v1/beacon/light_client/updates?start_period=1000&count=1"); status != 200 || string(body) != "[]\n" {
		t.Errorf("withheld: %d %s", status, body)
	}
	n.Break(beacontest.Faults{Down: true})
	if status, _ := n.get(t, "/eth/v1/beacon/genesis"); status != 503 {
		t.Errorf("down: %d", status)
	}
}

func TestBeacon_DescribesItsNetwork(t *testing.T) {
	n := newNode(t, "fulu", 10)
	for path, want := range map[string]string{
		"/eth/v1/beacon/genesis": fmt.Sprintf(`{"data":{"genesis_fork_version":"0x01defe17","genesis_time":"1700000000","genesis_validators_root":"0x%x"}}`, sha256.Sum256([]byte("beacontest"))),
		"/eth/v1/config/spec": `{"data":{"ALTAIR_FORK_EPOCH":"0","ALTAIR_FORK_VERSION":"0x01defe17","BELLATRIX_FORK_EPOCH":"0","BELLATRIX_FORK_VERSION":"0x02defe17",` +
			`"CAPELLA_FORK_EPOCH":"0","CAPELLA_FORK_VERSION":"0x03defe17","CONFIG_NAME":"beacontest","DENEB_FORK_EPOCH":"0","DENEB_FORK_VERSION":"0x04defe17","DEPOSIT_CHAIN_ID":"1337",` +
			`"ELECTRA_FORK_EPOCH":"0","ELECTRA_FORK_VERSION":"0x05defe17","EPOCHS_PER_SYNC_COMMITTEE_PERIOD":"8","FULU_FORK_EPOCH":"0","FULU_FORK_VERSION":"0x06defe17",` +
			`"SECONDS_PER_SLOT":"1","SLOTS_PER_EPOCH":"8","SYNC_COMMITTEE_SIZE":"512"}}`,
	} {
		if got := string(n.need(t, "%s", path)); got != want+"\n" {
			t.Errorf("%s:\n%s want\n%s", path, got, want)
		}
	}
	var header struct {
		Finalized bool
		Data      struct {
			Root   finality.Root
			Header struct{ Message lightclient.BeaconHeader }
		}
	}
	if err := json.Unmarshal(n.need(t, "/eth/v1/beacon/headers/finalized"), &header); err != nil {
		t.Fatal(err)
	}
	h := finality.BeaconHeader(header.Data.Header.Message)
	if !header.Finalized || uint64(h.Slot) != slot(8) || h.HashTreeRoot() != header.Data.Root || header.Data.Root != n.checkpoint(t, 8) {
		t.Errorf("%+v", header)
	}
	if text, err := json.Marshal(n.Network()); err != nil {
		t.Error(err)
	} else if _, err := finality.ParseNetwork(text); err != nil {
		t.Error(err)
	}
}

func TestBeacon_ThatCannotServeIsRefused(t *testing.T) {
	for _, c := range []beacontest.Config{
		{Name: "x", Depth: 2},
		{Name: "x", Execution: chain(1)},

		{Name: "x", Execution: chain(1), Depth: 2, Fork: "capella"},
		{Name: "x", Execution: chain(1), Depth: 2, Fork: "heze"},
	} {
		if _, err := beacontest.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
