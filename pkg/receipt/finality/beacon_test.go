package finality_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"os"
	"testing"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/internal/ssz"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// beacon makes what recorded data cannot have: signatures of chosen members over chosen
// blocks. Its states and bodies hold nothing but the leaves that proofs lead to.
type beacon struct {
	network    *finality.Network
	committees map[uint64]*committee
}

type committee struct {
	lightclient.SyncCommittee
	secrets []*big.Int
}

// newBeacon is a network of 64 members, with one fork, and slots of 12 seconds.
func newBeacon(fork string) *beacon {
	return &beacon{
		network: &finality.Network{
			Name: "test", ChainID: "eip155:1337", GenesisValidatorsRoot: finality.Root{1, 2, 3},
			SecondsPerSlot: 12, SlotsPerEpoch: 8, SlotsPerPeriod: 64, CommitteeSize: 64,
			Forks: []finality.Fork{{Name: fork, Version: finality.ForkVersion{9}}},
		},
		committees: map[uint64]*committee{},
	}
}

func (b *beacon) indices() ssz.Indices {
	indices, _ := ssz.IndicesOf(b.network.Forks[0].Name)
	return indices
}

func (b *beacon) committee(period uint64) *committee {
	if c := b.committees[period]; c != nil {
		return c
	}
	c := new(committee)
	_, _, generator, _ := bls12381.Generators()
	sum := new(big.Int)
	key := func(secret *big.Int) finality.PublicKey {
		var point bls12381.G1Affine
		return point.ScalarMultiplication(&generator, secret).Bytes()
	}
	for i := range b.network.CommitteeSize {
		var seed [16]byte
		binary.BigEndian.PutUint64(seed[:], period)
		binary.BigEndian.PutUint64(seed[8:], uint64(i))
		digest := sha256.Sum256(seed[:])
		secret := new(big.Int).SetBytes(digest[:])
		secret.Mod(secret, fr.Modulus())
		c.secrets = append(c.secrets, secret)
		c.Pubkeys = append(c.Pubkeys, key(secret))
		sum.Add(sum, secret)
	}
	c.AggregatePubkey = key(sum.Mod(sum, fr.Modulus()))
	b.committees[period] = c
	return c
}

func (c *committee) sign(message finality.Root, bits []byte) finality.Signature {
	sum := new(big.Int)
	for i, secret := range c.secrets {
		if bits[i/8]>>(i%8)&1 == 1 {
			sum.Add(sum, secret)
		}
	}
	hashed, err := bls12381.HashToG2(message[:], []byte("BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_"))
	if err != nil {
		panic(err)
	}
	var point bls12381.G2Affine
	return point.ScalarMultiplication(&hashed, sum.Mod(sum, fr.Modulus())).Bytes()
}

// tree is known only where it holds a leaf, by generalized index; the rest is zero.
type tree map[uint64]finality.Root

func (t tree) node(index uint64) finality.Root {
	if leaf, ok := t[index]; ok {
		return leaf
	}
	for leaf := range t {
		if leaf>>max(ssz.Depth(leaf)-ssz.Depth(index), 0) == index {
			return ssz.Hash(t.node(2*index), t.node(2*index+1))
		}
	}
	return finality.Root{}
}

func (t tree) branch(index uint64) (branch []finality.Root) {
	for ; index > 1; index /= 2 {
		branch = append(branch, t.node(index^1))
	}
	return branch
}

// block is a beacon block.
type block struct {
	header    finality.BeaconHeader
	state     tree
	execution finality.Execution
}

// block puts an execution block into a beacon block whose state calls another one final.
func (b *beacon) block(slot uint64, execution finality.Root, final *block) *block {
	at, period := b.indices(), b.network.Period(slot)
	body := tree{at.BlockHash: execution}
	state := tree{
		at.CurrentCommittee: b.committee(period).HashTreeRoot(),
		at.NextCommittee:    b.committee(period + 1).HashTreeRoot(),
	}
	if final != nil {
		state[at.Finalized] = final.header.HashTreeRoot()
	}
	return &block{
		header:    finality.BeaconHeader{Slot: finality.Uint64(slot), StateRoot: state.node(1), BodyRoot: body.node(1)},
		state:     state,
		execution: finality.Execution{BlockHash: execution, Branch: body.branch(at.BlockHash)},
	}
}

func (b *beacon) checkpoint(at *block) finality.Checkpoint {
	committee := at.state[b.indices().CurrentCommittee]
	return finality.Checkpoint{
		Root: at.header.HashTreeRoot(), Header: at.header, Committee: &committee, Branch: at.state.branch(b.indices().CurrentCommittee),
	}
}

// step is signed one slot after attested by the first signers of its committee. It hands over.
func (b *beacon) step(t testing.TB, attested, final *block, signers int) finality.Step {
	t.Helper()
	bits := make([]byte, b.network.CommitteeSize/8)
	for i := range signers {
		bits[i/8] |= 1 << (i % 8)
	}
	slot := uint64(attested.header.Slot) + 1
	c := b.committee(b.network.Period(slot))
	next := &b.committee(b.network.Period(slot) + 1).SyncCommittee
	step, err := lightclient.NewStep(&c.SyncCommittee, &lightclient.Update{
		AttestedHeader:    lightclient.Header{Beacon: lightclient.BeaconHeader(attested.header)},
		NextSyncCommittee: next, NextSyncCommitteeBranch: attested.state.branch(b.indices().NextCommittee),
		FinalizedHeader: lightclient.Header{Beacon: lightclient.BeaconHeader(final.header)},
		FinalityBranch:  attested.state.branch(b.indices().Finalized),
		SyncAggregate: lightclient.SyncAggregate{
			Bits: bits, Signature: c.sign(b.network.SigningRoot(attested.header.HashTreeRoot(), slot), bits),
		},
		SignatureSlot: finality.Uint64(slot),
	})
	if err != nil {
		t.Fatal(err)
	}
	return step
}

// sample is a document that holds, the receipt that it is about, and what is trusted.
type sample struct {
	document *finality.Document
	receipt  *receipt.Receipt
	trust    finality.Trust
}

func (s sample) verify() error {
	note(s.document, s.trust)
	_, err := finality.Verify(s.receipt, s.document, s.trust)
	return err
}

// clone is a sample whose document can be changed.
func (s sample) clone(t testing.TB) sample {
	t.Helper()
	s.document = parse(t, encode(t, s.document))
	return s
}

func encode(t testing.TB, d *finality.Document) []byte {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parse(t testing.TB, text []byte) *finality.Document {
	t.Helper()
	d, err := finality.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// about is as much of a receipt as finality reads.
func about(chain string, b finality.Block) *receipt.Receipt {
	number, _ := b.Number.MarshalText()
	r := &receipt.Receipt{
		Chain: receipt.Chain{ID: chain}, Block: receipt.Block{Number: string(number), Hash: b.Hash.String()},
		Finality: receipt.Finality{Tag: receipt.TagFinalized, Met: true},
	}
	r.Request.Expectations.MinConfirmations = 3
	return r
}

// recorded is a document made of recorded data (see lightclient/testdata).
func recorded(t testing.TB, name string) sample {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	d := parse(t, text)
	return sample{d, about(d.Chain, d.Block), finality.Trust{Checkpoint: d.Anchor.Checkpoint.Root}}
}

// headers are execution headers from a number on, each the parent of the next.
func headers(first uint64, count int) (list [][]byte) {
	parent := finality.Root{0xaa}
	for i := range count {
		raw := childOf(parent, finality.Root{}, first+uint64(i))
		list, parent = append(list, raw), hashOf(raw)
	}
	return list
}

// childOf is the encoding of a header with a parent and a state.
func childOf(parent, state finality.Root, number uint64) []byte {
	var items []byte
	for place := range 15 {
		switch place {
		case 0:
			items = rlp.AppendString(items, parent[:])
		case 3:
			items = rlp.AppendString(items, state[:])
		case 4, 5:
			items = rlp.AppendString(items, make([]byte, 32))
		case 8:
			items = rlp.AppendUint(items, number)
		default:
			items = rlp.AppendUint(items, 0)
		}
	}
	return rlp.AppendList(nil, items)
}

func hashOf(header []byte) finality.Root { return finality.Root(evm.Keccak256(header)) }

// history is go-ethereum's answer to eth_getProof for block 20 from the state of block 64
// (simulated chain of v1.17.10).
func history(t testing.TB) (link finality.Link, anchor, target finality.Block) {
	t.Helper()
	text, err := os.ReadFile("testdata/eip2935.json")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		AnchorHeader receipt.Hex
		AnchorHash   finality.Root
		TargetHash   finality.Root
		Proof        struct {
			AccountProof []receipt.Hex
			StorageProof []struct{ Proof []receipt.Hex }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	link = finality.Link{
		Kind: finality.LinkHistory, Header: answer.AnchorHeader,
		Account: answer.Proof.AccountProof, Storage: answer.Proof.StorageProof[0].Proof,
	}
	return link, finality.Block{Number: 64, Hash: answer.AnchorHash}, finality.Block{Number: 20, Hash: answer.TargetHash}
}

// signed is a document with two steps, of which the second misses three members, over an
// execution block and a link to another one.
func (b *beacon) signed(t testing.TB, anchor finality.Root, target finality.Block, link finality.Link) sample {
	t.Helper()
	start := b.block(10, finality.Root{1}, nil)
	first := b.block(20, finality.Root{2}, nil)
	second := b.block(80, anchor, nil)
	d := b.document(target, link)
	d.Anchor = finality.Anchor{
		Kind: finality.AnchorSyncCommittee, Checkpoint: b.checkpoint(start),
		Steps: []finality.Step{
			b.step(t, b.block(40, finality.Root{3}, first), first, 64),
			b.step(t, b.block(100, finality.Root{4}, second), second, 61),
		},
		Execution: second.execution,
	}
	d.Anchor.Steps[1] = d.Anchor.Steps[1].WithoutNext()
	return b.sample(d)
}

// pinned is a document whose checkpoint is the finalized block.
func (b *beacon) pinned(anchor finality.Root, target finality.Block, link finality.Link) sample {
	at := b.block(10, anchor, nil)
	d := b.document(target, link)
	d.Anchor = finality.Anchor{
		Kind:       finality.AnchorPinnedBlock,
		Checkpoint: finality.Checkpoint{Root: at.header.HashTreeRoot(), Header: at.header},
		Execution:  at.execution,
	}
	return b.sample(d)
}

func (b *beacon) document(target finality.Block, link finality.Link) *finality.Document {
	return &finality.Document{
		Type: finality.Type, Version: finality.Version, Chain: b.network.ChainID, Network: b.network.Name, Block: target, Link: link,
	}
}

func (b *beacon) sample(d *finality.Document) sample {
	return sample{d, about(d.Chain, d.Block), finality.Trust{Checkpoint: d.Anchor.Checkpoint.Root, Network: b.network}}
}

// samples has each kind of anchor and of link.
func samples(t testing.TB) map[string]sample {
	t.Helper()
	b := newBeacon("electra")
	chain := headers(100, 6)
	target := finality.Block{Number: 100, Hash: hashOf(chain[0])}
	var link finality.Link
	link.Kind = finality.LinkHeaders
	for i := 5; i > 0; i-- {
		link.Headers = append(link.Headers, chain[i])
	}
	looked, anchor, old := history(t)
	return map[string]sample{
		"recorded":         recorded(t, "deneb-to-electra"),
		"signed, headers":  b.signed(t, hashOf(chain[5]), target, link),
		"signed, history":  b.signed(t, anchor.Hash, old, looked),
		"pinned, same":     b.pinned(target.Hash, target, finality.Link{Kind: finality.LinkSame}),
		"pinned, headers":  b.pinned(hashOf(chain[5]), target, link),
		"pinned, history":  b.pinned(anchor.Hash, old, looked),
		"signed, of gloas": newBeacon("gloas").signed(t, target.Hash, target, finality.Link{Kind: finality.LinkSame}),
	}
}

// trieOf is a trie with one value: its only node, which has the root as its hash.
func trieOf(key, value []byte) (node receipt.Hex, root finality.Root) {
	path := evm.Keccak256(key)
	leaf := append([]byte{0x20}, path[:]...) // hex-prefix: a leaf with an even path
	node = rlp.AppendList(nil, rlp.AppendString(rlp.AppendString(nil, leaf), value))
	return node, hashOf(node)
}

// recordOf is a link by the record of a block whose state holds one block's hash, and that block.
func recordOf(number uint64, target finality.Block) (finality.Link, finality.Root) {
	slot := finality.HistorySlot(uint64(target.Number))
	storage, root := trieOf(slot[:], rlp.AppendString(nil, target.Hash[:]))
	var contract receipt.Hex
	if err := contract.UnmarshalText([]byte(finality.HistoryContract)); err != nil {
		panic(err)
	}
	account := rlp.AppendUint(rlp.AppendUint(nil, 1), 0) // nonce and balance
	account = rlp.AppendString(rlp.AppendString(account, root[:]), make([]byte, 32))
	node, state := trieOf(contract, rlp.AppendList(nil, account))
	header := childOf(finality.Root{}, state, number)
	return finality.Link{
		Kind: finality.LinkHistory, Header: header, Account: []receipt.Hex{node}, Storage: []receipt.Hex{storage},
	}, hashOf(header)
}
