package lightclient_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

var update = flag.Bool("update", false, "write the documents in ../testdata")

// recorded is a chain of recorded answers, from a checkpoint to a finalized block.
type recorded struct {
	name    string
	boot    *lightclient.Bootstrap
	updates []*lightclient.Update
}

func recordings(t testing.TB) []recorded {
	t.Helper()
	d := decoder{finality.Mainnet()}
	chain := func(name, boot string, updates ...string) recorded {
		r := recorded{name: name, boot: d.bootstrap(t, file(t, boot))}
		for _, name := range updates {
			r.updates = append(r.updates, d.updates(t, file(t, name))...)
		}
		return r
	}
	return []recorded{
		chain("deneb-to-electra", "mainnet-deneb-1421-bootstrap.ssz", "mainnet-deneb-1421-updates.ssz", "mainnet-electra-1422-updates.ssz"),
		chain("electra-1422", "mainnet-electra-1422-bootstrap.ssz", "mainnet-electra-1422-updates.ssz"),
		chain("electra-1600", "mainnet-electra-1600-bootstrap.ssz", "mainnet-electra-1600-updates.ssz", "mainnet-electra-1601-updates.ssz"),
		capella(t),
		deneb(t, d),
	}
}

// capella is JSON of the beacon API. The sixth update is of the finality update's period.
func capella(t testing.TB) recorded {
	t.Helper()
	boot, err := lightclient.ParseBootstrap(file(t, "mainnet-capella-bootstrap.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	updates, err := lightclient.ParseUpdates(file(t, "mainnet-capella-updates.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	final, err := lightclient.ParseFinalityUpdate(file(t, "mainnet-capella-finality.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return recorded{"capella", boot, append(updates[:5], final)}
}

// deneb ends in a finality update of the second update's period.
func deneb(t testing.TB, d decoder) recorded {
	t.Helper()
	boot := d.bootstrap(t, file(t, "mainnet-deneb-bootstrap.ssz")[4:])
	final := d.update(t, file(t, "mainnet-deneb-finality-update.ssz")[4:], false)
	return recorded{"deneb-1250", boot, append(d.list(t, file(t, "mainnet-deneb-updates.ssz"))[:1], final)}
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasSuffix([]byte(name), []byte(".gz")) {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// document makes the document about the last finalized block.
func (r recorded) document(t testing.TB) *finality.Document {
	t.Helper()
	checkpoint := lightclient.NewCheckpoint(r.boot)
	anchor := finality.Anchor{Kind: finality.AnchorSyncCommittee, Checkpoint: checkpoint}
	signer := &r.boot.CurrentSyncCommittee
	for i, u := range r.updates {
		step, err := lightclient.NewStep(signer, u)
		if err != nil {
			t.Fatal(err)
		}
		if i == len(r.updates)-1 {
			step = step.WithoutNext()
		}
		anchor.Steps = append(anchor.Steps, step)
		signer = u.NextSyncCommittee
	}
	last := r.updates[len(r.updates)-1].FinalizedHeader
	var err error
	if anchor.Execution, err = lightclient.NewExecution(last); err != nil {
		t.Fatal(err)
	}
	return &finality.Document{
		Type: finality.Type, Version: finality.Version, Chain: "eip155:1", Network: "mainnet",
		Block:  finality.Block{Number: last.Execution.BlockNumber, Hash: last.Execution.BlockHash},
		Anchor: anchor, Link: finality.Link{Kind: finality.LinkSame},
	}
}

func TestChains_ThatWereRecordedAreFinal(t *testing.T) {
	for _, r := range recordings(t) {
		d := r.document(t)
		result, err := finality.VerifyBlock(d, finality.Trust{Checkpoint: r.boot.Header.Beacon.HashTreeRoot()})
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
			continue
		}
		t.Log(r.name, result.Sentences())
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		path := "../testdata/" + r.name + ".json"
		if *update {
			if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(text)+"\n"); diff != "" {
			t.Errorf("%s (-recorded +made):\n%s", r.name, diff)
		}
		parsed, err := finality.Parse(want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, parsed); diff != "" {
			t.Errorf("%s (-made +parsed):\n%s", r.name, diff)
		}
	}
}

// A node whose light client data has the form of Gloas returns earlier blocks in it too.
func TestChains_AnEarlierForkInTheFormOfGloasIsFinal(t *testing.T) {
	for _, r := range recordings(t) {
		d := r.document(t)
		h := r.updates[len(r.updates)-1].FinalizedHeader
		const depth = 11
		branch := append(make([]finality.Root, depth-len(d.Anchor.Execution.Branch)), d.Anchor.Execution.Branch...)
		later := lightclient.Header{Beacon: h.Beacon, ExecutionBlockHash: &h.Execution.BlockHash, ExecutionBranch: branch}
		execution, err := lightclient.NewExecution(later)
		if diff := cmp.Diff(d.Anchor.Execution, execution); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", r.name, err, diff)
		}
		later.ExecutionBranch = slices.Clone(branch)
		later.ExecutionBranch[0][0] = 1
		if _, err := lightclient.NewExecution(later); !errors.Is(err, lightclient.ErrMalformed) {
			t.Errorf("%s, filled with something else: %v", r.name, err)
		}
	}
}

func TestAnswers_ThatAreNoneAreRefused(t *testing.T) {
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, lightclient.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, text := range []string{"", "null", "{}", `{"data":null}`, `{"data":[]}`, `{"data":{"header":1,"signature_slot":1}}`, `[{}]`, `[{"data":null}]`} {
		_, err := lightclient.ParseBootstrap([]byte(text))
		refused("bootstrap "+text, err)
		_, err = lightclient.ParseFinalityUpdate([]byte(text))
		refused("finality update "+text, err)
		_, err = lightclient.ParseUpdates([]byte(text))
		refused("updates "+text, err)
	}
	if updates, err := lightclient.ParseUpdates([]byte("[]")); err != nil || len(updates) > 0 {
		t.Errorf("no updates: %v", err)
	}
}

func TestParts_ThatDoNotFitAreRefused(t *testing.T) {
	r := recordings(t)[1]
	signer := &r.boot.CurrentSyncCommittee
	for name, change := range map[string]func(u *lightclient.Update){
		"fewer bits":        func(u *lightclient.Update) { u.SyncAggregate.Bits = u.SyncAggregate.Bits[1:] },
		"no bits":           func(u *lightclient.Update) { u.SyncAggregate.Bits = nil },
		"a committee alone": func(u *lightclient.Update) { u.NextSyncCommitteeBranch = nil },
		"a branch alone":    func(u *lightclient.Update) { u.NextSyncCommittee = nil },
	} {
		u := *r.updates[0]
		change(&u)
		if _, err := lightclient.NewStep(signer, &u); !errors.Is(err, lightclient.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := lightclient.NewStep(&lightclient.SyncCommittee{}, r.updates[0]); !errors.Is(err, lightclient.ErrMalformed) {
		t.Errorf("an empty committee: %v", err)
	}
	for name, change := range map[string]func(h *lightclient.Header, p *lightclient.ExecutionPayloadHeader){
		"another number": func(_ *lightclient.Header, p *lightclient.ExecutionPayloadHeader) { p.BlockNumber++ },
		"a longer bloom": func(_ *lightclient.Header, p *lightclient.ExecutionPayloadHeader) {
			p.LogsBloom = append(p.LogsBloom, 0)
		},
		"a short recipient": func(_ *lightclient.Header, p *lightclient.ExecutionPayloadHeader) { p.FeeRecipient = nil },
		"half of the blobs": func(_ *lightclient.Header, p *lightclient.ExecutionPayloadHeader) { p.BlobGasUsed = nil },
		"much extra data":   func(_ *lightclient.Header, p *lightclient.ExecutionPayloadHeader) { p.ExtraData = make([]byte, 33) },
		"no branch":         func(h *lightclient.Header, _ *lightclient.ExecutionPayloadHeader) { h.ExecutionBranch = nil },
		"no execution":      func(h *lightclient.Header, _ *lightclient.ExecutionPayloadHeader) { h.Execution = nil },
	} {
		h := r.updates[0].FinalizedHeader
		p := *h.Execution
		h.Execution = &p
		change(&h, &p)
		if _, err := lightclient.NewExecution(h); !errors.Is(err, lightclient.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnswers_AreWrittenAsTheyWereRead(t *testing.T) {
	for _, r := range recordings(t) {
		text, err := json.Marshal(lightclient.Versioned[*lightclient.Bootstrap]{Version: "electra", Data: r.boot})
		if err != nil {
			t.Fatal(err)
		}
		boot, err := lightclient.ParseBootstrap(text)
		if diff := cmp.Diff(r.boot, boot); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", r.name, err, diff)
		}
		for _, u := range r.updates {
			text, err := json.Marshal(lightclient.Versioned[*lightclient.Update]{Data: u})
			if err != nil {
				t.Fatal(err)
			}
			again, err := lightclient.ParseFinalityUpdate(text)
			if diff := cmp.Diff(u, again); err != nil || diff != "" {
				t.Errorf("%s: %v\n%s", r.name, err, diff)
			}
		}
	}
}

func TestHeader_BaseFeeHas256Bits(t *testing.T) {
	for text, ok := range map[string]bool{
		"0": true, "7": true, "1000000007": true,
		"115792089237316195423570985008687907853269984665640564039457584007913129639935": true,
		"115792089237316195423570985008687907853269984665640564039457584007913129639936": false,
		"-1": false, "": false, "0x1": false, "1e3": false,
	} {
		var n lightclient.Uint256
		err := n.UnmarshalText([]byte(text))
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if again, err := n.MarshalText(); ok && (err != nil || string(again) != text) {
			t.Errorf("%q: %s", text, again)
		}
	}
}
