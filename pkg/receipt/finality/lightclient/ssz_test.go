package lightclient_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// The recorded answers are SSZ where no JSON was recorded. Only tests read that.

// cursor reads fixed parts one after another.
type cursor struct {
	data []byte
	err  error
}

func (c *cursor) next(n int) []byte {
	if len(c.data) < n {
		c.err = errors.New("ends too early")
		return make([]byte, n)
	}
	part := c.data[:n]
	c.data = c.data[n:]
	return part
}

func (c *cursor) number() finality.Uint64 {
	return finality.Uint64(binary.LittleEndian.Uint64(c.next(8)))
}
func (c *cursor) offset() int         { return int(binary.LittleEndian.Uint32(c.next(4))) }
func (c *cursor) root() finality.Root { return finality.Root(c.next(32)) }

func (c *cursor) branch(n int) []finality.Root {
	branch := make([]finality.Root, n)
	for i := range branch {
		branch[i] = c.root()
	}
	return branch
}

func (c *cursor) beaconHeader() (h lightclient.BeaconHeader) {
	h.Slot, h.ProposerIndex = c.number(), c.number()
	h.ParentRoot, h.StateRoot, h.BodyRoot = c.root(), c.root(), c.root()
	return h
}

func (c *cursor) committee(size int) (s lightclient.SyncCommittee) {
	for range size {
		s.Pubkeys = append(s.Pubkeys, finality.PublicKey(c.next(48)))
	}
	s.AggregatePubkey = finality.PublicKey(c.next(48))
	return s
}

// decoder knows the sizes that depend on the network.
type decoder struct{ network *finality.Network }

func (d decoder) fork(slot finality.Uint64) string { return d.network.ForkAt(uint64(slot)).Name }

func (d decoder) electra(slot finality.Uint64) bool {
	fork := d.fork(slot)
	return fork == "electra" || fork == "fulu"
}

// depths are those of the branches to the committees and to the finalized header.
func (d decoder) depths(slot finality.Uint64) (committee, finalized int) {
	if d.electra(slot) {
		return 6, 7
	}
	return 5, 6
}

func (d decoder) header(t testing.TB, data []byte) (h lightclient.Header) {
	t.Helper()
	c := cursor{data: data}
	h.Beacon = c.beaconHeader()
	at := c.offset()
	h.ExecutionBranch = c.branch(4)
	c.data = data[at:]
	p := &lightclient.ExecutionPayloadHeader{}
	p.ParentHash, p.FeeRecipient, p.StateRoot, p.ReceiptsRoot = c.root(), c.next(20), c.root(), c.root()
	p.LogsBloom, p.PrevRandao = c.next(256), c.root()
	p.BlockNumber, p.GasLimit, p.GasUsed, p.Timestamp = c.number(), c.number(), c.number(), c.number()
	extra := c.offset()
	p.BaseFeePerGas = lightclient.Uint256(c.next(32))
	p.BlockHash, p.TransactionsRoot, p.WithdrawalsRoot = c.root(), c.root(), c.root()
	if d.fork(h.Beacon.Slot) != "capella" {
		used, excess := c.number(), c.number()
		p.BlobGasUsed, p.ExcessBlobGas = &used, &excess
	}
	p.ExtraData = data[at+extra:]
	h.Execution = p
	if c.err != nil {
		t.Fatal(c.err)
	}
	return h
}

func (d decoder) bootstrap(t testing.TB, data []byte) *lightclient.Bootstrap {
	t.Helper()
	c := cursor{data: data}
	at := c.offset()
	b := &lightclient.Bootstrap{Header: d.header(t, data[at:])}
	depth, _ := d.depths(b.Header.Beacon.Slot)
	b.CurrentSyncCommittee = c.committee(d.network.CommitteeSize)
	b.CurrentSyncCommitteeBranch = c.branch(depth)
	if c.err != nil {
		t.Fatal(c.err)
	}
	return b
}

// update reads a LightClientUpdate, or a LightClientFinalityUpdate.
func (d decoder) update(t testing.TB, data []byte, next bool) *lightclient.Update {
	t.Helper()
	c := cursor{data: data}
	u := &lightclient.Update{}
	attested := c.offset()
	u.AttestedHeader.Beacon.Slot = finality.Uint64(binary.LittleEndian.Uint64(data[attested:]))
	committee, finalized := d.depths(u.AttestedHeader.Beacon.Slot)
	if next {
		s := c.committee(d.network.CommitteeSize)
		u.NextSyncCommittee, u.NextSyncCommitteeBranch = &s, c.branch(committee)
	}
	final := c.offset()
	u.FinalityBranch = c.branch(finalized)
	u.SyncAggregate.Bits = c.next(d.network.CommitteeSize / 8)
	u.SyncAggregate.Signature = finality.Signature(c.next(96))
	u.SignatureSlot = c.number()
	if c.err != nil {
		t.Fatal(c.err)
	}
	u.AttestedHeader = d.header(t, data[attested:final])
	u.FinalizedHeader = d.header(t, data[final:])
	return u
}

// updates reads the answer of /updates: for each a length, a fork digest and an update.
func (d decoder) updates(t testing.TB, data []byte) (list []*lightclient.Update) {
	t.Helper()
	for len(data) > 0 {
		size := binary.LittleEndian.Uint64(data)
		list = append(list, d.update(t, data[12:8+size], true))
		data = data[8+size:]
	}
	return list
}

// list reads an SSZ list of fork digests with updates.
func (d decoder) list(t testing.TB, data []byte) (list []*lightclient.Update) {
	t.Helper()
	for first := int(binary.LittleEndian.Uint32(data)); len(list) < first/4; {
		i, end := len(list), len(data)
		if i+1 < first/4 {
			end = int(binary.LittleEndian.Uint32(data[4*i+4:]))
		}
		list = append(list, d.update(t, data[int(binary.LittleEndian.Uint32(data[4*i:]))+4:end], true))
	}
	return list
}
