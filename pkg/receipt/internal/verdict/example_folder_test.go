package verdict

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

const (
	exampleFolder = "example"
	exampleAnswer = vectorsFolder + "ethereum-blob/response.json"
	exampleKeys   = vectorsFolder + "ethereum-blob/key.json"
	exampleOrigin = "verifier.example.com/v1/log/1"
	examplePlace  = 2 // among the receipts of exampleLog
)

// exampleLog are the receipts in the log of the example, of which the answer is one.
var exampleLog = []string{"base", "optimism-deposit", "ethereum-blob", "polygon-reverted", "transfer-base"}

// step is one value on the way, with its name and how it is found.
type step struct {
	What  string `json:"what"`
	Value string `json:"value"`
}

type steps struct {
	Signature []step `json:"signature"`
	Proof     []step `json:"proof"`
	Log       []step `json:"log"`
	Finality  []step `json:"finality"`
}

func document(t testing.TB, path string) receipt.Document {
	t.Helper()
	doc, err := receipt.Parse(read(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func seeded(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// tree returns the root of leaves (RFC 6962 section 2.1), the siblings on the way from a leaf
// upwards, and what each join makes.
func tree(leaves []tlog.Hash, place int) (root tlog.Hash, siblings, joined []tlog.Hash) {
	if len(leaves) == 1 {
		return leaves[0], nil, nil
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := leaves[:k], leaves[k:]
	if place < k {
		below, path, joins := tree(left, place)
		beside, _, _ := tree(right, 0)
		root = tlog.NodeHash(below, beside)
		return root, append(path, beside), append(joins, root)
	}
	below, path, joins := tree(right, place-k)
	beside, _, _ := tree(left, 0)
	root = tlog.NodeHash(beside, below)
	return root, append(path, beside), append(joins, root)
}

// exampleOfLog makes policy and proof, and the values between.
func exampleOfLog(t testing.TB) (policy string, proof []byte, on []step) {
	t.Helper()
	var leaves []tlog.Hash
	for _, name := range exampleLog {
		entry, err := receiptlog.EntryOf(document(t, vectorsFolder+name+"/response.json"))
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, entry.Leaf())
	}
	entry, err := receiptlog.EntryOf(document(t, exampleAnswer))
	if err != nil {
		t.Fatal(err)
	}
	root, siblings, joined := tree(leaves, examplePlace)
	c := receiptlog.Checkpoint{Origin: exampleOrigin, Size: int64(len(leaves)), Root: root}
	log, err := receiptlog.NewLogSigner(exampleOrigin, seeded("log of the example"))
	if err != nil {
		t.Fatal(err)
	}
	note, err := c.Sign(log)
	if err != nil {
		t.Fatal(err)
	}
	on = append(on, step{"entry, three lines", string(entry.Bytes())}, step{"leaf: H(0x00 || entry)", hex.EncodeToString(leaves[examplePlace][:])})
	for i := range siblings {
		on = append(on, step{"sibling", hex.EncodeToString(siblings[i][:])}, step{"joined with it", hex.EncodeToString(joined[i][:])})
	}
	on = append(on, step{"the log signs", c.Text()})
	policy = "log " + log.String() + "\n"
	for i, name := range []string{"one", "two"} {
		at := time.Unix(1760000000+int64(60*i), 0)
		witness, err := receiptlog.NewWitnessSigner("witness-"+name+".example.com", seeded("witness "+name), func() time.Time { return at })
		if err != nil {
			t.Fatal(err)
		}
		line, err := c.Cosign(witness)
		if err != nil {
			t.Fatal(err)
		}
		note, policy = append(note, line...), policy+"witness "+name+" "+witness.String()+"\n"
		on = append(on, step{"witness " + name + " signs", "cosignature/v1\ntime " + strconv.FormatInt(at.Unix(), 10) + "\n" + c.Text()})
	}
	return policy + "group both all one two\nquorum both\n", receiptlog.Proof{Index: examplePlace, Hashes: siblings, Checkpoint: note}.Bytes(), on
}

// exampleOfSignature are the values on the way to what is signed.
func exampleOfSignature(t testing.TB) []step {
	t.Helper()
	doc := document(t, exampleAnswer)
	keys, err := receipt.ParseKeyDocument(read(t, exampleKeys))
	if err != nil {
		t.Fatal(err)
	}
	der, err := base64.StdEncoding.DecodeString(keys.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(der)
	signed := receipt.PAE(doc.Signature.PayloadType, doc.Body)
	signature, err := base64.StdEncoding.DecodeString(doc.Signature.Value)
	if err != nil || !ed25519.Verify(der[12:], signed, signature) {
		t.Fatal("the signature does not hold")
	}
	return []step{
		{"H of the 44 bytes of publicKey", hex.EncodeToString(digest[:])},
		{"public key, the last 32 of them", hex.EncodeToString(der[12:])},
		{"body", string(doc.Body)},
		{"what is signed", string(signed)},
		{"signature", hex.EncodeToString(signature)},
	}
}

// exampleOfProof are the values on the way from the header to transaction and receipt.
func exampleOfProof(t testing.TB) (on []step) {
	t.Helper()
	proof := document(t, exampleAnswer).Proof
	add := func(what string, value []byte) { on = append(on, step{what, receipt.Hex(value).String()}) }
	header, err := evm.DecodeHeader(proof.HeaderRLP)
	if err != nil {
		t.Fatal(err)
	}
	var index uint64
	if err := json.Unmarshal([]byte(proof.Index), &index); err != nil {
		t.Fatal(err)
	}
	key := rlp.AppendUint(nil, index)
	add("K of headerRlp: block.hash", header.Hash[:])
	add("key of both tries: RLP of index", key)
	for _, trie := range []struct {
		name  string
		root  evm.Hash
		nodes []receipt.Hex
	}{{"transactionsRoot", header.TransactionsRoot, proof.Transaction}, {"receiptsRoot", header.ReceiptsRoot, proof.Receipt}} {
		add(trie.name, trie.root[:])
		for _, node := range trie.nodes {
			hash := evm.Keccak256(node)
			add("K of the next node", hash[:])
		}
		value, err := evm.VerifyTrie(trie.root, key, trie.nodes)
		if err != nil {
			t.Fatal(err)
		}
		hash := evm.Keccak256(value)
		add("value under the key", value)
		add("K of the value", hash[:])
	}
	return on
}

// walk are the values from a leaf at a generalized index upwards.
func walk(what string, leaf finality.Root, branch []finality.Root, index int) []step {
	on := []step{{what, leaf.String()}}
	for _, sibling := range branch {
		left, right := leaf, sibling
		if index%2 == 1 {
			left, right = sibling, leaf
		}
		leaf, index = sha256.Sum256(append(left[:], right[:]...)), index/2
		on = append(on, step{"joined with its sibling", leaf.String()})
	}
	return on
}

// exampleOfFinality are the values on the way from the checkpoint to the block.
func exampleOfFinality(t testing.TB) (on []step) {
	t.Helper()
	d, err := finality.Parse(read(t, blob+"signed.json"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := finality.ParseNetwork(read(t, blob+"network.json"))
	if err != nil {
		t.Fatal(err)
	}
	const finalized, current, execution = 169, 86, 812 // of Electra
	c := d.Anchor.Checkpoint
	on = append(on, step{"root of the checkpoint's header", c.Header.HashTreeRoot().String()})
	on = append(on, walk("committee, to the checkpoint's stateRoot", *c.Committee, c.Branch, current)...)
	for _, s := range d.Anchor.Steps {
		on = append(on, step{"leaf of the aggregate", s.Signer.Aggregate.HashTreeRoot().String()}, step{"H(keysRoot, that): the committee", s.Signer.HashTreeRoot().String()})
		for _, absent := range s.Signer.Absent {
			on = append(on, walk("leaf of an absent key, to keysRoot", absent.Key.HashTreeRoot(), absent.Branch, n.CommitteeSize+absent.Index)...)
		}
		on = append(on, walk("root of the finalized header, to the attested stateRoot", s.Finalized.HashTreeRoot(), s.FinalityBranch, finalized)...)
		root := s.Attested.HashTreeRoot()
		on = append(on, step{"root of the attested header", root.String()}, step{"what the committee signs", n.SigningRoot(root, uint64(s.SignatureSlot)).String()})
		if s.NextCommittee != nil {
			on = append(on, walk("next committee, to the attested stateRoot", *s.NextCommittee, s.NextBranch, current+1)...)
		}
	}
	on = append(on, walk("execution block, to the finalized bodyRoot", d.Anchor.Execution.BlockHash, d.Anchor.Execution.Branch, execution)...)
	for _, raw := range d.Link.Headers {
		header, err := evm.DecodeHeader(raw)
		if err != nil {
			t.Fatal(err)
		}
		on = append(on, step{"K of the next header", receipt.Hex(header.Hash[:]).String()}, step{"its parentHash", receipt.Hex(header.ParentHash[:]).String()})
	}
	return on
}

// The folder has one of every document and all that lies between, for people who write a check
// of their own.
func TestExample_IsWhatIsMade(t *testing.T) {
	policy, proof, log := exampleOfLog(t)
	text, err := json.MarshalIndent(steps{exampleOfSignature(t), exampleOfProof(t), log, exampleOfFinality(t)}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{
		"answer.json": read(t, exampleAnswer), "receipt-signing-key.json": read(t, exampleKeys),
		"policy": []byte(policy), "answer.tlog-proof": proof, "finality.json": read(t, blob+"signed.json"),
		"network.json": read(t, blob+"network.json"), "checkpoint": []byte(checkpoints(t)["signed"] + "\n"),
		"steps.json": append(text, '\n'),
	} {
		path := filepath.Join(top, exampleFolder, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(file), string(want)); diff != "" {
			t.Errorf("%s (-file +made):\n%s", path, diff)
		}
	}
	if v := Judge(example(t).question(t)); v.Code != Valid || v.Log == nil || v.Finality == nil {
		t.Errorf("%+v", v)
	}
}

// example is the folder as a reader gives it to the check.
func example(t testing.TB) line {
	t.Helper()
	documents := map[string]string{}
	for name, file := range map[string]string{
		"answer": "answer.json", "keys": "receipt-signing-key.json", "log": "answer.tlog-proof", "policy": "policy",
		"finality": "finality.json", "network": "network.json",
	} {
		documents[name] = exampleFolder + "/" + file
	}
	return line{Name: "example", Documents: documents, Checkpoint: checkpoints(t)["signed"]}
}
