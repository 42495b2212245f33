package lightclient_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
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

func TestRecordedChainsAreFinal(t *testing.T) {
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
