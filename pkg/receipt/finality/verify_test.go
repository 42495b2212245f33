package finality_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
)

var update = flag.Bool("update", false, "write the results in testdata")

func TestDocument_OfEveryKindHolds(t *testing.T) {
	for name, s := range samples(t) {
		if err := s.clone(t).verify(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResult_OfRecordedChains(t *testing.T) {
	for _, name := range []string{"capella", "deneb-1250", "deneb-to-electra", "electra-1422", "electra-1600"} {
		s := recorded(t, name)
		result, err := finality.Verify(s.receipt, s.document, s.trust)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(result, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, "\n"+strings.Join(result.Sentences(), "\n")+"\n"...)
		path := "testdata/results/" + name + ".txt"
		if *update {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(text)); diff != "" {
			t.Errorf("%s (-recorded +found):\n%s", name, diff)
		}
	}
}

// TestDocument_ReachesOverFifteenCommittees has an anchor of mainnet over 17 days. The
// recording does not say the number of its block, which the link same does not prove either.
func TestDocument_ReachesOverFifteenCommittees(t *testing.T) {
	text, err := os.ReadFile("testdata/deneb-1392-to-1406.json")
	if err != nil {
		t.Fatal(err)
	}
	d := &finality.Document{
		Type: finality.Type, Version: finality.Version, Chain: finality.Mainnet().ChainID, Network: finality.Mainnet().Name,
		Link: finality.Link{Kind: finality.LinkSame},
	}
	if err := json.Unmarshal(text, &d.Anchor); err != nil {
		t.Fatal(err)
	}
	d.Anchor.Kind, d.Block = finality.AnchorSyncCommittee, finality.Block{Number: 1, Hash: d.Anchor.Execution.BlockHash}
	trust := finality.Trust{Checkpoint: d.Anchor.Checkpoint.Root}
	if _, err := finality.VerifyBlock(d, trust); !errors.Is(err, finality.ErrCheckpointTooOld) {
		t.Errorf("a checkpoint of 17 days before: %v", err)
	}
	trust.MaxAge = 18 * 24 * time.Hour
	result, err := finality.VerifyBlock(d, trust)
	if err != nil {
		t.Fatal(err)
	}
	if result.FirstPeriod != 1392 || result.LastPeriod != 1406 || result.LeastSigners < 500 {
		t.Errorf("%+v", result)
	}
	for i := range d.Anchor.Steps[:14] {
		cut := *d
		cut.Anchor.Steps = slices.Delete(slices.Clone(d.Anchor.Steps), i, i+1)
		if _, err := finality.VerifyBlock(&cut, trust); err == nil {
			t.Errorf("it holds without step %d", i)
		}
	}
}

func TestResult_NamesTheProvenFacts(t *testing.T) {
	fields := func(s sample) (list []string) {
		t.Helper()
		result, err := finality.Verify(s.receipt, s.document, s.trust)
		if err != nil {
			t.Fatal(err)
		}
		for _, fact := range result.Proven {
			list = append(list, fact.Field+" "+fact.Value)
		}
		return list
	}
	all := samples(t)
	always := []string{"chain.id eip155:1337", "finality.tag finalized", "checks.canonicalBlock pass"}
	// The anchor of the link by headers is five blocks ahead, and three confirmations are expected.
	if diff := cmp.Diff(append(always, "checks.minConfirmations pass"), fields(all["signed, headers"])); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	same := all["pinned, same"]
	same.trust.Header = headers(100, 1)[0]
	if diff := cmp.Diff(always, fields(same)); diff != "" {
		t.Errorf("one confirmation of three, -want +got:\n%s", diff)
	}
	s := all["signed, headers"]
	for least, want := range map[int]int{0: 3, 1: 4, 6: 4, 7: 3} { // blocks 100 to 105
		s.receipt.Request.Expectations.MinConfirmations = least
		if got := len(fields(s)); got != want {
			t.Errorf("at least %d confirmations: %d facts, want %d", least, got, want)
		}
	}
}

// The link same shows the hash of the block alone: who signs the receipt could name any number.
func TestVerify_ProvesTheNumberOfTheFinalizedBlockByItsHeaderOnly(t *testing.T) {
	for _, name := range []string{"pinned, same", "signed, of gloas"} {
		s := samples(t)[name]
		s.receipt.Request.Expectations.MinConfirmations = 1
		header := receipt.Hex(headers(100, 1)[0])
		for number, proven := range map[uint64]bool{100: true, 7: false} {
			s.document.Block.Number, s.receipt.Block.Number = finality.Uint64(number), strconv.FormatUint(number, 10)
			s.trust.Header = nil
			result, err := finality.Verify(s.receipt, s.document, s.trust)
			if err != nil {
				t.Fatal(err)
			}
			canonical := func(f receipt.Fact) bool { return f.Field == "checks."+receipt.CheckCanonicalBlock }
			if result.NumberShown || slices.ContainsFunc(result.Proven, canonical) ||
				!strings.Contains(strings.Join(result.Sentences(), "\n"), "is not shown") {
				t.Errorf("%s, number %d without a header: %+v", name, number, result)
			}
			confirmed := slices.IndexFunc(result.Proven, func(f receipt.Fact) bool {
				return f.Field == "checks."+receipt.CheckMinConfirmations
			})
			if confirmed < 0 || result.Proven[confirmed].How != "this block is final" {
				t.Errorf("%s, number %d without a header: %+v", name, number, result.Proven)
			}
			s.trust.Header = header
			result, err = finality.Verify(s.receipt, s.document, s.trust)
			if !proven {
				if !errors.Is(err, finality.ErrOtherBlock) {
					t.Errorf("%s, number %d and the header of 100: %v", name, number, err)
				}
				continue
			}
			if err != nil || !result.NumberShown || !slices.ContainsFunc(result.Proven, canonical) {
				t.Errorf("%s, with its header: %+v, %v", name, result, err)
			}
		}
		s.document.Block.Number, s.receipt.Block.Number = 100, "100"
		for what, wrong := range map[string]receipt.Hex{"another block": headers(101, 1)[0], "no header": {0xc0}} {
			s.trust.Header = wrong
			if _, err := finality.Verify(s.receipt, s.document, s.trust); !errors.Is(err, finality.ErrOtherBlock) {
				t.Errorf("%s, header of %s: %v", name, what, err)
			}
		}
	}
}

// The age of a checkpoint is measured between two slots of the past: a reader learns its date.
func TestResult_WarnsOfACheckpointOfLongAgo(t *testing.T) {
	s := recorded(t, "electra-1422")
	result, err := finality.Verify(s.receipt, s.document, s.trust)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2025, 5, 7, 10, 11, 35, 0, time.UTC)
	if !result.CheckpointTime.Equal(at) || !strings.Contains(result.Sentences()[0], "of 7 May 2025, 10:11 UTC") {
		t.Errorf("%v: %s", result.CheckpointTime, result.Sentences()[0])
	}
	if got := result.Warning(at.Add(finality.DefaultMaxAge)); got != "" {
		t.Errorf("14 days later: %s", got)
	}
	if got := result.Warning(at.Add(565 * 24 * time.Hour)); !strings.Contains(got, "of 565 days ago, more than 14") {
		t.Errorf("565 days later: %q", got)
	}
	pinned := samples(t)["pinned, headers"] // is itself the finalized block, and of no known date
	result, err = finality.Verify(pinned.receipt, pinned.document, pinned.trust)
	if err != nil || !result.CheckpointTime.IsZero() || result.Warning(time.Now()) != "" {
		t.Errorf("%+v, %v", result, err)
	}
	pinned.trust.Network.GenesisTime = 1
	result, err = finality.Verify(pinned.receipt, pinned.document, pinned.trust)
	if err != nil || result.CheckpointTime.IsZero() || result.Warning(time.Now()) != "" {
		t.Errorf("of a known date: %+v, %v", result, err)
	}
}

func TestResult_HasOnlyATimeThatCanBeWritten(t *testing.T) {
	s := samples(t)["pinned, same"]
	s.trust.Network.GenesisTime, s.trust.Network.SecondsPerSlot = 1, 1
	for slot, known := range map[finality.Uint64]bool{253_402_300_798: true, 253_402_300_799: false} { // the year 10000
		c := &s.document.Anchor.Checkpoint
		c.Header.Slot = slot
		c.Root = c.Header.HashTreeRoot()
		s.trust.Checkpoint = c.Root
		result, err := finality.Verify(s.receipt, s.document, s.trust)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(result); err != nil || result.CheckpointTime.IsZero() == known {
			t.Errorf("slot %d: %v, %v", slot, result.CheckpointTime, err)
		}
	}
}

// Nothing in a pinned block is signed for one network: the chain is that of the checkpoint,
// and which that is only the reader knows.
func TestPin_ProvesItsChainOnlyForTheNamedNetwork(t *testing.T) {
	b, hoodi := newBeacon("deneb"), finality.Hoodi()
	b.network.Name, b.network.ChainID = hoodi.Name, hoodi.ChainID
	target := finality.Block{Number: 100, Hash: finality.Root{7}}
	s := b.pinned(target.Hash, target, finality.Link{Kind: finality.LinkSame})
	for _, named := range []*finality.Network{nil, hoodi} {
		s.trust.Network = named
		result, err := finality.Verify(s.receipt, s.document, s.trust)
		if err != nil {
			t.Fatal(err)
		}
		chain := slices.ContainsFunc(result.Proven, func(fact receipt.Fact) bool { return fact.Field == "chain.id" })
		if chain != (named != nil) {
			t.Errorf("network %v: %v", named, result.Proven)
		}
	}
}

// change is one of a document: path is where.
type change struct {
	path        string
	apply, undo func()
}

// changes are all of a value: each number, the first, a middle and the last byte of all
// bytes, each list shorter, longer and in another order, each optional part absent.
func changes(path string, v reflect.Value) (list []change) {
	set := func(what string, to reflect.Value) {
		if reflect.DeepEqual(v.Interface(), to.Interface()) {
			return
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		list = append(list, change{path + what, func() { v.Set(to) }, func() { v.Set(old) }})
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			set(" absent", reflect.Zero(v.Type()))
			return append(list, changes(path, v.Elem())...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			list = append(list, changes(path+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
	case reflect.Array:
		for _, i := range []int{0, v.Len() / 2, v.Len() - 1} {
			to := reflect.New(v.Type()).Elem()
			to.Set(v)
			to.Index(i).SetUint(to.Index(i).Uint() ^ 4)
			set(fmt.Sprintf("[%d]", i), to)
		}
	case reflect.Slice:
		n := v.Len()
		if n == 0 {
			return nil
		}
		bytes := v.Type().Elem().Kind() == reflect.Uint8
		set(" without the last", v.Slice(0, n-1))
		set(" without the first", v.Slice(1, n))
		set(" with the last twice", reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, n+1), reflect.AppendSlice(v.Slice3(0, n, n), v.Slice(n-1, n))))
		if n > 1 && !bytes {
			swapped := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, n), v)
			first := reflect.New(v.Type().Elem()).Elem()
			first.Set(swapped.Index(0))
			swapped.Index(0).Set(swapped.Index(n - 1))
			swapped.Index(n - 1).Set(first)
			set(" with first and last swapped", swapped)
		}
		for i := range n {
			if bytes && i != 0 && i != n/2 && i != n-1 {
				continue
			}
			list = append(list, changes(fmt.Sprintf("%s[%d]", path, i), v.Index(i))...)
		}
	case reflect.String:
		set("", reflect.ValueOf(v.String()+"x").Convert(v.Type()))
		set(" empty", reflect.Zero(v.Type()))
	case reflect.Uint64, reflect.Uint8:
		to := reflect.New(v.Type()).Elem()
		to.SetUint(v.Uint() ^ 1)
		set("^1", to)
	case reflect.Int:
		set("+1", reflect.ValueOf(int(v.Int())+1))
	default:
		panic(path + ": " + v.Kind().String())
	}
	return list
}

// The slot of a signature is not signed: within its period and fork it may be any.
func TestDocument_ThatIsChangedDoesNotHold(t *testing.T) {
	for name, s := range samples(t) {
		s = s.clone(t)
		tried := 0
		for _, c := range changes("", reflect.ValueOf(s.document).Elem()) {
			c.apply()
			err := s.verify()
			c.undo()
			if tried++; err == nil && !strings.HasSuffix(c.path, ".SignatureSlot^1") {
				t.Errorf("%s: %s: still holds", name, c.path)
			}
		}
		if err := s.verify(); err != nil || tried < 50 {
			t.Errorf("%s: after %d changes: %v", name, tried, err)
		}
		t.Logf("%s: %d changes", name, tried)
	}
}

// Every member of the JSON away, twice, null, of another kind, next to an unknown one; every
// text and number another one.
func TestDocument_WithChangedJSONDoesNotHold(t *testing.T) {
	all := samples(t)
	for _, name := range []string{"signed, headers", "pinned, history", "pinned, same"} {
		s, tried := all[name], 0
		try := func(path, text string) {
			tried++
			d, err := finality.Parse([]byte(text))
			if err != nil {
				if !errors.Is(err, finality.ErrMalformed) {
					t.Errorf("%s: %s: %v", name, path, err)
				}
				return
			}
			note(d, s.trust)
			if _, err := finality.Verify(s.receipt, d, s.trust); err == nil && !strings.HasSuffix(path, ".signatureSlot changed") {
				t.Errorf("%s: %s: still holds", name, path)
			}
		}
		mutateJSON("", encode(t, s.document), func(text []byte) []byte { return text }, try)
		t.Logf("%s: %d changes", name, tried)
		if tried < 100 {
			t.Errorf("%s: only %d changes", name, tried)
		}
	}
}

// mutateJSON calls try with every change of a value, put into the document around it.
func mutateJSON(path string, value json.RawMessage, around func([]byte) []byte, try func(path, text string)) {
	put := func(what, text string) { try(path+" "+what, string(around([]byte(text)))) }
	put("null", "null")
	switch value[0] {
	case '{':
		var members map[string]json.RawMessage
		if err := json.Unmarshal(value, &members); err != nil {
			panic(err)
		}
		object := func(skip, add string) string {
			var parts []string
			for name, member := range members {
				if name != skip {
					parts = append(parts, fmt.Sprintf("%q:%s", name, member))
				}
			}
			if add != "" {
				parts = append(parts, add)
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		put("with an unknown member", object("", `"more":"1"`))
		put("empty", "{}")
		for name, member := range members {
			put("without "+name, object(name, ""))
			put("with "+name+" twice", object("", fmt.Sprintf("%q:%s", name, member)))
			put("with "+name+" in another case", object(name, fmt.Sprintf("%q:%s", strings.ToUpper(name), member)))
			mutateJSON(path+"."+name, member, func(text []byte) []byte {
				return around([]byte(object(name, fmt.Sprintf("%q:%s", name, text))))
			}, try)
		}
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(value, &items); err != nil {
			panic(err)
		}
		list := func(items ...json.RawMessage) string {
			return "[" + string(bytes.Join(slices.Collect(func(yield func([]byte) bool) {
				for _, item := range items {
					if !yield(item) {
						return
					}
				}
			}), []byte(","))) + "]"
		}
		if len(items) > 0 {
			put("empty", "[]")
			put("with the last twice", list(append(slices.Clone(items), items[len(items)-1])...))
		}
		for i, item := range items {
			put(fmt.Sprintf("without [%d]", i), list(slices.Delete(slices.Clone(items), i, i+1)...))
			mutateJSON(fmt.Sprintf("%s[%d]", path, i), item, func(text []byte) []byte {
				other := slices.Clone(items)
				other[i] = text
				return around([]byte(list(other...)))
			}, try)
		}
	case '"':
		text := string(value[1 : len(value)-1])
		last := text[len(text)-1]
		put("changed", fmt.Sprintf("%q", text[:len(text)-1]+string(last^1)))
		put("longer", fmt.Sprintf("%q", text+"0"))
		put("shorter", fmt.Sprintf("%q", text[:len(text)-1]))
		put("with a leading zero", fmt.Sprintf("%q", "0"+text))
		put("empty", `""`)
		put("a number", "1")
		if upper := strings.ToUpper(text); upper != text {
			put("upper case", fmt.Sprintf("%q", upper))
		}
	default:
		put("another", string(value)+"0")
		put("a text", fmt.Sprintf("%q", value))
	}
}

func TestDocument_WithStepsInAnotherOrderDoesNotHold(t *testing.T) {
	s := recorded(t, "capella")
	steps := s.document.Anchor.Steps
	for name, other := range map[string][]finality.Step{
		"swapped": {steps[1], steps[0], steps[2], steps[3], steps[4], steps[5]},
		"dropped": {steps[0], steps[2], steps[3], steps[4], steps[5]},
		"doubled": {steps[0], steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]},
		"first":   {steps[5]},
		"cut":     {steps[0], steps[1], steps[2].WithoutNext()},
	} {
		s.document.Anchor.Steps = other
		if err := s.verify(); err == nil {
			t.Errorf("%s: holds", name)
		}
	}
}

func TestSignature_NeedsTwoThirds(t *testing.T) {
	b := newBeacon("electra")
	target := finality.Block{Number: 100, Hash: finality.Root{7}}
	for signers, want := range map[int]error{64: nil, 43: nil, 42: finality.ErrTooFewSigners, 0: finality.ErrTooFewSigners} {
		s := b.signed(t, target.Hash, target, finality.Link{Kind: finality.LinkSame})
		second := b.block(80, target.Hash, nil)
		step := b.step(t, b.block(100, finality.Root{4}, second), second, signers)
		s.document.Anchor.Steps[1] = step.WithoutNext()
		if err := s.verify(); !errors.Is(err, want) {
			t.Errorf("%d of 64: %v, want %v", signers, err, want)
		}
	}
	// Of 512, 342 are two thirds.
	b.network.CommitteeSize = 512
	clear(b.committees)
	for signers, want := range map[int]error{342: nil, 341: finality.ErrTooFewSigners} {
		final := b.block(10, finality.Root{1}, nil)
		step := b.step(t, b.block(20, finality.Root{2}, final), final, signers)
		if err := b.network.VerifyStep(&step, b.committee(0).HashTreeRoot(), 0); !errors.Is(err, want) {
			t.Errorf("%d of 512: %v, want %v", signers, err, want)
		}
	}
}

func TestSignature_AbsentKeysAreThoseWhoDidNotSign(t *testing.T) {
	b := newBeacon("electra")
	target := finality.Block{Number: 100, Hash: finality.Root{7}}
	for name, c := range map[string]struct {
		change func(absent []finality.AbsentKey) []finality.AbsentKey
		want   error
	}{
		"one missing":   {func(a []finality.AbsentKey) []finality.AbsentKey { return a[1:] }, finality.ErrCommittee},
		"one twice":     {func(a []finality.AbsentKey) []finality.AbsentKey { return append(a, a[2]) }, finality.ErrCommittee},
		"one for other": {func(a []finality.AbsentKey) []finality.AbsentKey { a[1] = a[0]; return a }, finality.ErrCommittee},
		"out of order":  {func(a []finality.AbsentKey) []finality.AbsentKey { slices.Reverse(a); return a }, finality.ErrCommittee},
		"of another place": {func(a []finality.AbsentKey) []finality.AbsentKey {
			a[0].Key, a[0].Branch = a[1].Key, a[1].Branch
			return a
		}, finality.ErrBranch},
		"one who signed": {func(a []finality.AbsentKey) []finality.AbsentKey { a[0].Index = 0; return a }, finality.ErrCommittee},
		"negative":       {func(a []finality.AbsentKey) []finality.AbsentKey { a[0].Index = -1; return a }, finality.ErrCommittee},
	} {
		s := b.signed(t, target.Hash, target, finality.Link{Kind: finality.LinkSame})
		signer := &s.document.Anchor.Steps[1].Signer
		signer.Absent = c.change(signer.Absent)
		if err := s.verify(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestSignature_PointsThatAreNoneDoNotHold(t *testing.T) {
	b := newBeacon("electra")
	target := finality.Block{Number: 100, Hash: finality.Root{7}}
	sign := func() sample { return b.signed(t, target.Hash, target, finality.Link{Kind: finality.LinkSame}) }
	s := sign()
	last := &s.document.Anchor.Steps[1]
	good := last.Signature
	for name, signature := range map[string]finality.Signature{
		"infinity":             {0: 0xc0},
		"not compressed":       {},
		"not in the subgroup":  outsideG2(),
		"not on the curve":     {0: 0x80, 95: 4},
		"x beyond the modulus": beyond(good),
		"the other sign":       func() finality.Signature { other := good; other[0] ^= 0x20; return other }(),
	} {
		last.Signature = signature
		if err := s.verify(); !errors.Is(err, finality.ErrSignature) {
			t.Errorf("signature %s: %v", name, err)
		}
	}
	// As keys, they must be the committee's: this one consists of them.
	for name, key := range map[string]finality.PublicKey{"infinity": {0: 0xc0}, "not in the subgroup": outsideG1(), "zero": {}} {
		clear(b.committees)
		b.committee(1).AggregatePubkey = key
		if err := sign().verify(); !errors.Is(err, finality.ErrSignature) {
			t.Errorf("aggregate key %s: %v", name, err)
		}
		clear(b.committees)
		b.committee(1).Pubkeys[63] = key // one of those who do not sign
		if err := sign().verify(); !errors.Is(err, finality.ErrSignature) {
			t.Errorf("absent key %s: %v", name, err)
		}
	}
	// A sum that fits to an absent key of infinity.
	clear(b.committees)
	c := b.committee(1)
	c.Pubkeys[63] = finality.PublicKey{0: 0xc0}
	c.AggregatePubkey = sumOf(t, c.Pubkeys[:63])
	if err := sign().verify(); !errors.Is(err, finality.ErrSignature) {
		t.Errorf("absent key infinity, not in the sum: %v", err)
	}
	// The sum of the absent keys: what is left is infinity, and any signature of nobody is, too.
	clear(b.committees)
	c = b.committee(1)
	c.AggregatePubkey = sumOf(t, c.Pubkeys[61:])
	s = sign()
	s.document.Anchor.Steps[1].Signature = finality.Signature{0: 0xc0}
	if err := s.verify(); !errors.Is(err, finality.ErrSignature) {
		t.Errorf("keys that add up to infinity: %v", err)
	}
}

func sumOf(t testing.TB, keys []finality.PublicKey) finality.PublicKey {
	t.Helper()
	var sum bls12381.G1Jac
	for _, key := range keys {
		var point bls12381.G1Affine
		if _, err := point.SetBytes(key[:]); err != nil {
			t.Fatal(err)
		}
		sum.AddMixed(&point)
	}
	return new(bls12381.G1Affine).FromJacobian(&sum).Bytes()
}

// outsideG1 is a point of the curve that is not of the subgroup.
func outsideG1() finality.PublicKey {
	for x := uint64(1); ; x++ {
		var p bls12381.G1Affine
		var right, four fp.Element
		p.X.SetUint64(x)
		right.Square(&p.X).Mul(&right, &p.X).Add(&right, four.SetUint64(4))
		if p.Y.Sqrt(&right) != nil && !p.IsInSubGroup() {
			return p.Bytes()
		}
	}
}

func outsideG2() finality.Signature {
	for x := uint64(1); ; x++ {
		var p bls12381.G2Affine
		var right, four bls12381.E2
		p.X.A0.SetUint64(x)
		four.A0.SetUint64(4)
		four.A1.SetUint64(4)
		right.Square(&p.X).Mul(&right, &p.X).Add(&right, &four)
		if right.Legendre() == 1 {
			if p.Y.Sqrt(&right); p.IsOnCurve() && !p.IsInSubGroup() {
				return p.Bytes()
			}
		}
	}
}

// beyond is another spelling of a signature's point: the modulus is added to a coordinate.
func beyond(s finality.Signature) finality.Signature {
	x := new(big.Int).SetBytes(s[48:])
	x.Add(x, fp.Modulus()).FillBytes(s[48:])
	return s
}

func TestNetwork_AnotherDoesNotHold(t *testing.T) {
	s := recorded(t, "deneb-to-electra")
	mainnet := func(change func(*finality.Network)) *finality.Network {
		n := finality.Mainnet()
		change(n)
		return n
	}
	for name, c := range map[string]struct {
		network *finality.Network
		want    error
	}{
		"itself":                             {finality.Mainnet(), nil},
		"sepolia":                            {finality.Sepolia(), finality.ErrOtherChain},
		"another genesis":                    {mainnet(func(n *finality.Network) { n.GenesisValidatorsRoot[0] ^= 1 }), finality.ErrSignature},
		"another version of the last fork":   {mainnet(func(n *finality.Network) { n.Forks[4].Version[0] ^= 1 }), finality.ErrSignature},
		"a fork that is not in force":        {mainnet(func(n *finality.Network) { n.Forks[4].Epoch += 1000 }), finality.ErrBranch},
		"a fork that was in force before":    {mainnet(func(n *finality.Network) { n.Forks[4].Epoch -= 1000 }), finality.ErrBranch},
		"gloas in force":                     {mainnet(func(n *finality.Network) { n.Forks = append(n.Forks, finality.Fork{Name: "gloas", Epoch: 411392}) }), nil},
		"without forks":                      {mainnet(func(n *finality.Network) { n.Forks = nil }), finality.ErrMalformed},
		"another name":                       {mainnet(func(n *finality.Network) { n.Name = "other" }), finality.ErrOtherChain},
		"another execution chain":            {mainnet(func(n *finality.Network) { n.ChainID = "eip155:2" }), finality.ErrOtherChain},
		"a smaller committee":                {mainnet(func(n *finality.Network) { n.CommitteeSize = 256 }), finality.ErrMalformed},
		"periods of another length":          {mainnet(func(n *finality.Network) { n.SlotsPerPeriod = 4096 }), finality.ErrCommittee},
		"an older epoch of all forks before": {mainnet(func(n *finality.Network) { n.Forks[0].Epoch = 0 }), nil},
	} {
		s.trust.Network = c.network
		if err := s.verify(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestDocument_AboutAnotherReceiptDoesNotHold(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sample)
		want   error
	}{
		"chain of the receipt":     {func(s *sample) { s.receipt.Chain.ID = "eip155:8453" }, finality.ErrOtherChain},
		"block of the receipt":     {func(s *sample) { s.receipt.Block.Hash = finality.Root{}.String() }, finality.ErrOtherBlock},
		"height of the receipt":    {func(s *sample) { s.receipt.Block.Number += "0" }, finality.ErrOtherBlock},
		"checkpoint of the reader": {func(s *sample) { s.trust.Checkpoint[0] ^= 1 }, finality.ErrOtherCheckpoint},
		"a chain without proofs": {func(s *sample) {
			s.receipt.Chain.ID, s.document.Chain = "eip155:8453", "eip155:8453"
		}, finality.ErrNoNetwork},
	} {
		s := recorded(t, "electra-1422")
		c.change(&s)
		if err := s.verify(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestCheckpoint_ThatIsTooOldIsRefused(t *testing.T) {
	s := recorded(t, "capella") // 39,968 slots: 5 days, 13 hours, 13 minutes and 36 seconds
	age := 39968 * 12 * time.Second
	for limit, want := range map[time.Duration]error{0: nil, age: nil, age - time.Second: finality.ErrCheckpointTooOld, time.Nanosecond: finality.ErrCheckpointTooOld} {
		s.trust.MaxAge = limit
		result, err := finality.Verify(s.receipt, s.document, s.trust)
		if !errors.Is(err, want) || err == nil && result.Age != age {
			t.Errorf("%s: %v, want %v", limit, err, want)
		}
	}
	// With slots of a day: beyond the limit, until it is widened, and then it is said.
	b := newBeacon("electra")
	b.network.SecondsPerSlot = 1 << 16
	target := finality.Block{Number: 100, Hash: finality.Root{7}}
	old := b.signed(t, target.Hash, target, finality.Link{Kind: finality.LinkSame})
	if err := old.verify(); !errors.Is(err, finality.ErrCheckpointTooOld) {
		t.Errorf("53 days: %v", err)
	}
	old.trust.MaxAge = 100 * 24 * time.Hour
	result, err := finality.Verify(old.receipt, old.document, old.trust)
	if err != nil || !slices.ContainsFunc(result.Sentences(), func(text string) bool { return strings.Contains(text, "lies 53 days before it") }) {
		t.Errorf("53 days of 100: %v", err)
	}
}

// Who holds the keys of a later committee can call any old block final.
func TestCheckpoint_AgeIsThatOfTheLastCommitteeAtLeast(t *testing.T) {
	b := newBeacon("electra")
	b.network.SecondsPerSlot = 6 * 60 * 60
	target := finality.Block{Number: 100, Hash: finality.Root{7}}
	s := b.signed(t, target.Hash, target, finality.Link{Kind: finality.LinkSame})
	early := b.block(11, target.Hash, nil)
	step := b.step(t, b.block(100, finality.Root{4}, early), early, 64)
	s.document.Anchor.Steps[1], s.document.Anchor.Execution = step.WithoutNext(), early.execution
	s.trust.MaxAge = 13 * 24 * time.Hour // from slot 10 to slot 64: 13.5 days
	if err := s.verify(); !errors.Is(err, finality.ErrCheckpointTooOld) {
		t.Error(err)
	}
	s.trust.MaxAge = 14 * 24 * time.Hour
	if err := s.verify(); err != nil {
		t.Error(err)
	}
}

func TestSignature_AfterTheLastKnownForkNamesIt(t *testing.T) {
	s := recorded(t, "electra-1600")
	n := finality.Mainnet()
	n.Forks = n.Forks[:4] // without Electra and Fulu, whose indices are others
	s.trust.Network = n
	if err := s.verify(); !errors.Is(err, finality.ErrBranch) {
		t.Error(err)
	}
	n.Forks = append(n.Forks, finality.Mainnet().Forks[4])
	n.Forks[4].Version = finality.ForkVersion{8}
	if err := s.verify(); !errors.Is(err, finality.ErrSignature) || !strings.Contains(err.Error(), "this program knows forks up to electra") {
		t.Error(err)
	}
	s = recorded(t, "deneb-to-electra") // long before the last fork
	s.document.Anchor.Steps[0].Signature = s.document.Anchor.Steps[1].Signature
	if err := s.verify(); !errors.Is(err, finality.ErrSignature) || strings.Contains(err.Error(), "knows forks") {
		t.Error(err)
	}
}

func TestUpdate_ThatIsNotFinalHandsOverNoCommittee(t *testing.T) {
	b := newBeacon("electra")
	final := b.block(60, finality.Root{1}, nil)
	step := b.step(t, b.block(70, finality.Root{2}, final), final, 64)
	if err := b.network.VerifyStep(&step, b.committee(1).HashTreeRoot(), 1); !errors.Is(err, finality.ErrCommittee) {
		t.Error(err)
	}
	last := step.WithoutNext()
	if err := b.network.VerifyStep(&last, b.committee(1).HashTreeRoot(), 1); err != nil {
		t.Error(err)
	}
	if err := b.network.VerifyStep(&last, b.committee(1).HashTreeRoot(), 2); !errors.Is(err, finality.ErrCommittee) {
		t.Errorf("in another period: %v", err)
	}
	if err := b.network.VerifyStep(&last, b.committee(2).HashTreeRoot(), 1); !errors.Is(err, finality.ErrCommittee) {
		t.Errorf("by another committee: %v", err)
	}
}

func TestLinks_ThatDoNotLeadToTheBlockDoNotHold(t *testing.T) {
	b := newBeacon("electra")
	chain := headers(100, 8)
	hex := func(numbers ...int) (list []receipt.Hex) {
		for _, n := range numbers {
			list = append(list, chain[n-100])
		}
		return list
	}
	at := func(n int) finality.Block {
		return finality.Block{Number: finality.Uint64(n), Hash: hashOf(chain[n-100])}
	}
	byHeaders := func(headers []receipt.Hex) finality.Link {
		return finality.Link{Kind: finality.LinkHeaders, Headers: headers}
	}
	same := finality.Link{Kind: finality.LinkSame}
	looked, anchor, old := history(t)
	other := old
	other.Number--
	beside := looked
	beside.Account = looked.Account[:len(looked.Account)-1]
	without := looked
	without.Storage = looked.Storage[:len(looked.Storage)-1]
	foreign := looked
	foreign.Header = chain[0]
	later := anchor
	later.Number++
	for name, c := range map[string]struct {
		anchor finality.Root
		target finality.Block
		link   finality.Link
		holds  bool
	}{
		"the block itself":                 {at(105).Hash, at(105), same, true},
		"another block":                    {at(105).Hash, at(104), same, false},
		"one header":                       {at(105).Hash, at(104), byHeaders(hex(105)), true},
		"four headers":                     {at(105).Hash, at(101), byHeaders(hex(105, 104, 103, 102)), true},
		"a gap":                            {at(105).Hash, at(101), byHeaders(hex(105, 103, 102)), false},
		"the block's own header too":       {at(105).Hash, at(101), byHeaders(hex(105, 104, 103, 102, 101)), false},
		"from a later block":               {at(105).Hash, at(101), byHeaders(hex(106, 105, 104, 103, 102)), false},
		"headers of another block":         {at(105).Hash, finality.Block{Number: 104, Hash: at(103).Hash}, byHeaders(hex(105)), false},
		"upwards":                          {at(105).Hash, at(101), byHeaders(hex(102, 103, 104, 105)), false},
		"the receipt's block after":        {at(105).Hash, at(106), byHeaders(hex(105)), false},
		"a header that is none":            {at(105).Hash, at(104), byHeaders([]receipt.Hex{{0xc0}}), false},
		"another height":                   {at(105).Hash, finality.Block{Number: 103, Hash: at(104).Hash}, byHeaders(hex(105)), false},
		"in the record":                    {anchor.Hash, old, looked, true},
		"in the record of another block":   {at(105).Hash, old, looked, false},
		"another block than the recorded":  {anchor.Hash, finality.Block{Number: 20, Hash: at(105).Hash}, looked, false},
		"recorded at another height":       {anchor.Hash, other, looked, false},
		"without the account":              {anchor.Hash, old, beside, false},
		"without the slot":                 {anchor.Hash, old, without, false},
		"from another header":              {anchor.Hash, old, foreign, false},
		"the anchor's block in the record": {anchor.Hash, anchor, looked, false},
		"a later block in the record":      {anchor.Hash, later, looked, false},
		"8192 blocks before":               {anchor.Hash, finality.Block{Number: old.Number + finality.HistoryWindow, Hash: old.Hash}, looked, false},
	} {
		s := b.pinned(c.anchor, c.target, c.link)
		if err := s.verify(); c.holds != (err == nil) || err != nil && !errors.Is(err, finality.ErrLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The chain keeps the hashes of the 8191 blocks before, and each place holds another one later.
func TestLinks_RecordHoldsTheBlocksOfItsWindow(t *testing.T) {
	b := newBeacon("electra")
	for number, holds := range map[finality.Uint64]bool{
		9999: true, 1809: true, 1808: false, 0: false, 10_000: false, 10_001: false, 18_191: false, 1<<64 - 1: false,
	} {
		target := finality.Block{Number: number, Hash: finality.Root{5}}
		link, anchor := recordOf(10_000, target)
		if err := b.pinned(anchor, target, link).verify(); holds != (err == nil) || err != nil && !errors.Is(err, finality.ErrLink) {
			t.Errorf("block %d before 10000: %v", number, err)
		}
	}
	if got := finality.HistorySlot(8191 + 258); got != (finality.Root{30: 1, 31: 2}) {
		t.Error(got)
	}
}

func TestDocument_SlotsAreInOrder(t *testing.T) {
	b := newBeacon("electra")
	verify := func(attested, final uint64, change func(*finality.Step)) error {
		f := b.block(final, finality.Root{1}, nil)
		step := b.step(t, b.block(attested, finality.Root{2}, f), f, 64)
		change(&step)
		return b.network.VerifyStep(&step, b.committee(0).HashTreeRoot(), 0)
	}
	none := func(*finality.Step) {}
	if err := verify(20, 20, none); err != nil {
		t.Errorf("final at once: %v", err)
	}
	if err := verify(20, 21, none); !errors.Is(err, finality.ErrCommittee) {
		t.Errorf("final before it is attested: %v", err)
	}
	if err := verify(20, 10, func(s *finality.Step) { s.SignatureSlot = 20 }); !errors.Is(err, finality.ErrCommittee) {
		t.Errorf("signed in its own slot: %v", err)
	}
}

func TestSignature_IsOfTheForkOfTheSlotBefore(t *testing.T) {
	n := finality.Mainnet()
	first := uint64(364032 * 32) // of Electra
	root := func(slot uint64) finality.Root { return n.SigningRoot(finality.Root{1}, slot) }
	if root(first) != root(first-1) || root(first) == root(first+1) {
		t.Error("the first slot of a fork is signed in the fork itself")
	}
	if root(0) != root(1) {
		t.Error("before slot 0 there is a fork")
	}
}

func TestCheckpoint_AgeThatCannotBeCountedIsTooOld(t *testing.T) {
	b := newBeacon("electra")
	b.network.SecondsPerSlot, b.network.SlotsPerPeriod = 1<<16, 1<<20
	start, final := b.block(10, finality.Root{1}, nil), b.block(20, finality.Root{2}, nil)
	last := b.block(1<<20+1, finality.Root{3}, nil)
	target := finality.Block{Number: 100, Hash: finality.Root{3}}
	d := b.document(target, finality.Link{Kind: finality.LinkSame})
	second := b.step(t, b.block(1<<20+2, finality.Root{5}, last), last, 64)
	d.Anchor = finality.Anchor{
		Kind: finality.AnchorSyncCommittee, Checkpoint: b.checkpoint(start), Execution: last.execution,
		Steps: []finality.Step{b.step(t, b.block(40, finality.Root{4}, final), final, 64), second.WithoutNext()},
	}
	s := b.sample(d)
	s.trust.MaxAge = 1<<63 - 1 // 292 years; the slots are 2,179
	if err := s.verify(); !errors.Is(err, finality.ErrCheckpointTooOld) {
		t.Error(err)
	}
}

func TestDocument_IsBounded(t *testing.T) {
	s := recorded(t, "electra-1422")
	text := encode(t, s.document)
	for name, d := range map[string]string{
		"empty":          "",
		"too large":      string(text) + strings.Repeat(" ", finality.MaxSize),
		"two documents":  string(text) + string(text),
		"nested":         strings.Repeat("[", 100_000),
		"not UTF-8":      "\xff",
		"another type":   strings.Replace(string(text), finality.Type, "chain-evidence-receipt", 1),
		"a later format": strings.Replace(string(text), `"version":1`, `"version":2`, 1),
	} {
		if _, err := finality.Parse([]byte(d)); !errors.Is(err, finality.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := finality.Parse([]byte(" \n" + string(text) + "\n")); err != nil {
		t.Errorf("white space: %v", err)
	}
	s = recorded(t, "deneb-to-electra")
	for name, change := range map[string]func(d *finality.Document){
		"65 steps": func(d *finality.Document) {
			for len(d.Anchor.Steps) < 65 {
				d.Anchor.Steps = slices.Insert(d.Anchor.Steps, 0, d.Anchor.Steps[0])
			}
		},
		"a branch without a committee": func(d *finality.Document) { d.Anchor.Steps[1].NextBranch = d.Anchor.Steps[0].NextBranch },
		"a committee without a branch": func(d *finality.Document) { d.Anchor.Steps[0].NextBranch = nil },
		"a header that is not needed":  func(d *finality.Document) { d.Link.Header = receipt.Hex{1} },
		"nodes that are not needed":    func(d *finality.Document) { d.Link.Account = []receipt.Hex{{1}} },
		"more of these":                func(d *finality.Document) { d.Link.Storage = []receipt.Hex{{1}} },
		"headers that are not needed":  func(d *finality.Document) { d.Link.Headers = []receipt.Hex{{1}} },
		"no steps":                     func(d *finality.Document) { d.Anchor.Steps = nil },
		"65 headers": func(d *finality.Document) {
			d.Link.Kind, d.Link.Headers = finality.LinkHeaders, make([]receipt.Hex, 65)
		},
		"1024 bits": func(d *finality.Document) { d.Anchor.Steps[0].Bits = make([]byte, 128) },
	} {
		other := s.clone(t)
		change(other.document)
		if err := other.verify(); !errors.Is(err, finality.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDocument_TextsHaveOneSpelling(t *testing.T) {
	hex := strings.Repeat("0a", 32)
	for text, ok := range map[string]bool{"0x" + hex: true, hex: false, "0x" + strings.ToUpper(hex): false, "0X" + hex: false, "0x" + hex[1:]: false, "0x" + hex + "00": false, "0xzz" + hex[2:]: false} {
		if err := new(finality.Root).UnmarshalText([]byte(text)); ok != (err == nil) || err != nil && !errors.Is(err, finality.ErrMalformed) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{"0": true, "18446744073709551615": true, "18446744073709551616": false, "01": false, "-1": false, "+1": false, "": false, "1x": false, "0x1": false} {
		if err := new(finality.Uint64).UnmarshalText([]byte(text)); ok != (err == nil) || err != nil && !errors.Is(err, finality.ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNetwork_KnownOnes(t *testing.T) {
	for name, chain := range map[string]string{"mainnet": "eip155:1", "sepolia": "eip155:11155111", "hoodi": "eip155:560048"} {
		n, ok := finality.NetworkByName(name)
		same, also := finality.NetworkOf(chain)
		if !ok || !also || n.ChainID != chain || !reflect.DeepEqual(n, same) {
			t.Errorf("%s: %v", name, n)
		}
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := finality.ParseNetwork(text); err != nil || !reflect.DeepEqual(n, again) {
			t.Errorf("%s as a file: %v", name, err)
		}
	}
	if _, ok := finality.NetworkOf("eip155:8453"); ok {
		t.Error("an L2 has a network")
	}
	if _, ok := finality.NetworkByName("holesky"); ok {
		t.Error("an unknown name has a network")
	}
	sepolia, hoodi := finality.Sepolia(), finality.Hoodi()
	if v := sepolia.LastFork(); v.Version != (finality.ForkVersion{0x90, 0, 0, 0x76}) || v.Name != "gloas" {
		t.Error(v)
	}
	if v := hoodi.ForkAt(0); v.Version != (finality.ForkVersion{0x50, 0, 0x09, 0x10}) || v.Name != "deneb" {
		t.Error(v)
	}
}

func TestNetwork_FileThatCannotCountIsRefused(t *testing.T) {
	for name, change := range map[string]func(n *finality.Network){
		"no name":           func(n *finality.Network) { n.Name = "" },
		"no chain":          func(n *finality.Network) { n.ChainID = "1" },
		"no seconds":        func(n *finality.Network) { n.SecondsPerSlot = 0 },
		"no epoch":          func(n *finality.Network) { n.SlotsPerEpoch = 0 },
		"no period":         func(n *finality.Network) { n.SlotsPerPeriod = 0 },
		"odd period":        func(n *finality.Network) { n.SlotsPerPeriod++ },
		"odd committee":     func(n *finality.Network) { n.CommitteeSize = 500 },
		"negative":          func(n *finality.Network) { n.CommitteeSize = -8 },
		"large committee":   func(n *finality.Network) { n.CommitteeSize = 1024 },
		"forks out of time": func(n *finality.Network) { n.Forks[3].Epoch = 1 },
		"forks twice":       func(n *finality.Network) { n.Forks[3].Name = n.Forks[2].Name },
		"unknown fork":      func(n *finality.Network) { n.Forks[5].Name = "osaka" },
	} {
		n := finality.Mainnet()
		change(n)
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := finality.ParseNetwork(text); !errors.Is(err, finality.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDocumentThatHoldsIsTheOneThatWasMade(f *testing.F) {
	s := samples(f)["signed, headers"]
	text := encode(f, s.document)
	f.Add(text)
	for _, other := range samples(f) {
		f.Add(encode(f, other.document))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := finality.Parse(data)
		if err != nil {
			return
		}
		if _, err := finality.Verify(s.receipt, d, s.trust); err != nil {
			return
		}
		for i := range d.Anchor.Steps {
			d.Anchor.Steps[i].SignatureSlot = s.document.Anchor.Steps[i].SignatureSlot
		}
		if again := encode(t, d); !bytes.Equal(again, text) {
			t.Errorf("another document holds: %s", again)
		}
	})
}

func BenchmarkVerifyOneStep(b *testing.B) {
	s := recorded(b, "electra-1422")
	for b.Loop() {
		if err := s.verify(); err != nil {
			b.Fatal(err)
		}
	}
}
