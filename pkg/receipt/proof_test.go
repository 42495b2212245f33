package receipt_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

// A signer who lies is the case that proofs are for: they sign anything, and
// the proof refutes them in everything but what is listed as attested.
func TestProof_ASignerCannotLieAboutWhatIsProven(t *testing.T) {
	judged := map[string]bool{}
	for _, block := range allBlocks(t) {
		for _, i := range []int{0, block.Len() - 1} {
			r, proof := block.Receipt(i, receipt.Expectations{}), block.Proof(i)
			elsewhere := !judged[r.Transaction.Type] // one of each type: other languages take long
			judged[r.Transaction.Type] = true
			proven, _, err := receipt.VerifyProof(r, proof)
			if err != nil {
				t.Fatalf("%s %d: %v", block.Name, i, err)
			}
			known := map[string]bool{}
			for _, fact := range proven {
				known[fact.Field] = true
			}
			for field, lie := range lies(t, r) {
				if elsewhere {
					told := r
					told.Chain, told.Transaction, told.Block, told.Outcome = lie.Chain, lie.Transaction, lie.Block, lie.Outcome
					judgeSigned(t, told, &proof)
				}
				_, _, err := receipt.VerifyProof(lie, proof)
				if known[field] && (!errors.Is(err, receipt.ErrProof) || !strings.Contains(err.Error(), field)) {
					t.Errorf("%s %d: a lie about %s: error %v, want ErrProof that names it", block.Name, i, field, err)
				}
				if !known[field] && err != nil {
					t.Errorf("%s %d: %s is not proven, yet a false value of it returns %v", block.Name, i, field, err)
				}
			}
		}
	}
}

// lies returns the receipt with each member of its facts changed in turn.
func lies(t *testing.T, r receipt.Receipt) map[string]receipt.Receipt {
	t.Helper()
	out := map[string]receipt.Receipt{}
	for _, group := range []string{"chain", "transaction", "block", "outcome"} {
		var tree map[string]map[string]any
		unmarshal(t, relaxed(t, r), &tree)
		for name, value := range tree[group] {
			lie := "0x1234567890123456789012345678901234567890"
			if text, ok := value.(string); ok {
				lie = text[:len(text)-1] + string(otherDigit(text[len(text)-1]))
			}
			tree[group][name] = lie
			var changed receipt.Receipt
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			unmarshal(t, text, &changed)
			changed.Request, changed.Checks = r.Request, r.Checks
			out[group+"."+name] = changed
			tree[group][name] = value
		}
	}
	return out
}

// relaxed returns the receipt's groups of facts alone.
func relaxed(t *testing.T, r receipt.Receipt) []byte {
	t.Helper()
	return mustMarshal(t, map[string]any{
		"chain": r.Chain, "transaction": r.Transaction, "block": r.Block, "outcome": r.Outcome,
	})
}

func otherDigit(digit byte) byte {
	if digit == '1' {
		return '2'
	}
	return '1'
}

func unmarshal(t testing.TB, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func TestProof_EveryFactIsProvenOrAttested(t *testing.T) {
	for _, v := range readVectors(t) {
		result, err := receipt.Verify(v.files["response.json"], v.keys)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, fact := range append(result.Proven, result.Attested...) {
			got = append(got, fact.Field)
		}
		want := []string{"finality.tag"}
		for field := range lies(t, result.Receipt) {
			want = append(want, field)
		}
		for _, check := range result.Receipt.Checks {
			want = append(want, "checks."+check.Name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", v.folder, got, want)
		}
	}
}

func TestProof_CanonicalAndFinalAreNeverProven(t *testing.T) {
	for _, v := range readVectors(t) {
		result, err := receipt.Verify(v.files["response.json"], v.keys)
		if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, fact := range result.Attested {
			fields = append(fields, fact.Field)
		}
		for _, field := range []string{"checks.canonicalBlock", "checks.minConfirmations", "finality.tag", "chain.name"} {
			if !slices.Contains(fields, field) {
				t.Errorf("%s: %s is not attested; attested are %v", v.folder, field, fields)
			}
		}
		first := result.Receipt.Transaction.Index == "0"
		if slices.Contains(fields, "outcome.gasUsed") == first {
			t.Errorf("%s: gasUsed is proven for the first transaction only; attested are %v", v.folder, fields)
		}
	}
}

func TestProof_ThatIsChangedDoesNotHold(t *testing.T) {
	v := readVectors(t)[0]
	var r receipt.Receipt
	unmarshal(t, v.response.Receipt, &r)
	for name, change := range map[string]func(*receipt.Proof){
		"another header":            func(p *receipt.Proof) { p.HeaderRLP[40] ^= 1 },
		"no header":                 func(p *receipt.Proof) { p.HeaderRLP = nil },
		"a byte after the header":   func(p *receipt.Proof) { p.HeaderRLP = append(p.HeaderRLP, 0) },
		"another index":             func(p *receipt.Proof) { p.Index = "4" },
		"an index with a zero":      func(p *receipt.Proof) { p.Index = "03" },
		"no index":                  func(p *receipt.Proof) { p.Index = "" },
		"a negative index":          func(p *receipt.Proof) { p.Index = "-3" },
		"no transaction":            func(p *receipt.Proof) { p.Transaction = nil },
		"a node less":               func(p *receipt.Proof) { p.Transaction = p.Transaction[:1] },
		"a node twice":              func(p *receipt.Proof) { p.Receipt = append(p.Receipt, p.Receipt[0]) },
		"a changed transaction":     func(p *receipt.Proof) { flipLast(p.Transaction) },
		"a changed receipt":         func(p *receipt.Proof) { flipLast(p.Receipt) },
		"the tries the wrong way":   func(p *receipt.Proof) { p.Transaction, p.Receipt = p.Receipt, p.Transaction },
		"the nodes the wrong way":   func(p *receipt.Proof) { slices.Reverse(p.Transaction) },
		"another transaction's way": func(p *receipt.Proof) { p.Transaction = otherProof(t).Transaction },
		"another receipt's way":     func(p *receipt.Proof) { p.Receipt = otherProof(t).Receipt },
	} {
		proof := copyProof(*v.response.Proof)
		change(&proof)
		judgeSigned(t, r, &proof)
		if _, _, err := receipt.VerifyProof(r, proof); !errors.Is(err, receipt.ErrProof) {
			t.Errorf("%s: error %v, want ErrProof", name, err)
		}
	}
}

func flipLast(nodes []receipt.Hex) {
	last := nodes[len(nodes)-1]
	last[len(last)-1] ^= 1
}

func copyProof(p receipt.Proof) receipt.Proof {
	p.HeaderRLP = slices.Clone(p.HeaderRLP)
	for _, nodes := range []*[]receipt.Hex{&p.Transaction, &p.Receipt} {
		fresh := make([]receipt.Hex, len(*nodes))
		for i, node := range *nodes {
			fresh[i] = slices.Clone(node)
		}
		*nodes = fresh
	}
	return p
}

// otherProof is the proof of another transaction of the same block.
func otherProof(t *testing.T) receipt.Proof {
	t.Helper()
	block := baseBlock(t)
	return block.Proof(4)
}

func TestProof_SenderCheckNamesTheMethodOfTheType(t *testing.T) {
	for _, block := range allBlocks(t) {
		r := block.Receipt(0, receipt.Expectations{})
		other := receipt.MethodSecp256k1
		if r.Checks[2].Method == other {
			other = receipt.MethodPreimage
		}
		r.Checks = receipt.ChecksFor(other, r.Request.Expectations)
		if _, _, err := receipt.VerifyProof(r, block.Proof(0)); !errors.Is(err, receipt.ErrProof) {
			t.Errorf("%s: sender by %s: error %v, want ErrProof", block.Name, other, err)
		}
	}
}

func TestProof_TransfersAreReadFromProvenLogs(t *testing.T) {
	v := readVectors(t)[2] // Arbitrum, four logs
	result, err := receipt.Verify(v.files["response.json"], v.keys)
	if err != nil {
		t.Fatal(err)
	}
	var transfers []receipt.Transfer
	for _, log := range result.Logs {
		if transfer, ok := log.Transfer(); ok {
			transfers = append(transfers, transfer)
		}
	}
	want := []receipt.Transfer{{
		Token: "0xaedf7656fbb47c5b97dd529ac1d0e807e051f2dd",
		From:  "0x0000000000000000000000000000000000000000",
		To:    "0xc31a6c0c1087bbb6e6660f27014ad1321591c641",
		Value: "111430000000000000000",
	}}
	if diff := cmp.Diff(want, transfers); diff != "" {
		t.Errorf("transfers (-want +got):\n%s", diff)
	}
	nft := receipt.Log{Topics: []string{result.Logs[0].Topics[0], "", "", ""}}
	if _, ok := nft.Transfer(); ok {
		t.Error("a log with four topics is read as an ERC-20 transfer")
	}
}
