package receiptlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// mth is the Merkle tree hash as RFC 6962 section 2.1 defines it.
func mth(leaves []tlog.Hash) tlog.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	return tlog.NodeHash(mth(leaves[:k]), mth(leaves[k:]))
}

func TestProof_EveryEntryOfEveryTreeIsProven(t *testing.T) {
	m := sample(t, 70)
	var leaves []tlog.Hash
	for _, entry := range m.entries {
		leaves = append(leaves, receiptlog.Leaf(entry))
	}
	for size := 1; size <= 70; size++ {
		c := m.checkpoint(t, int64(size))
		if c.Root != mth(leaves[:size]) {
			t.Fatalf("root at %d is not RFC 6962's", size)
		}
		for index := range size {
			hashes := must[tlog.RecordProof](t)(tlog.ProveRecord(int64(size), int64(index), m))
			if err := c.CheckInclusion(int64(index), leaves[index], hashes); err != nil {
				t.Errorf("entry %d of %d: %v", index, size, err)
			}
			for _, wrong := range []int64{-1, int64(index) - 1, int64(index) + 1, int64(size), 1 << 60} {
				if err := c.CheckInclusion(wrong, leaves[index], hashes); !errors.Is(err, receiptlog.ErrInclusion) {
					t.Errorf("entry %d of %d passes as %d: %v", index, size, wrong, err)
				}
			}
			if err := c.CheckInclusion(int64(index), leaves[index], append(hashes, tlog.Hash{})); !errors.Is(err, receiptlog.ErrInclusion) {
				t.Errorf("entry %d of %d with a hash more: %v", index, size, err)
			}
		}
	}
}

func TestProof_EveryTreeContinuesEveryOlderOne(t *testing.T) {
	m, other := sample(t, 40), &memory{}
	for n := range 40 {
		other.add(t, filler(t, n)) // differs at place
	}
	for size := int64(1); size <= 40; size++ {
		for old := int64(1); old < size; old++ {
			c, before := m.checkpoint(t, size), m.checkpoint(t, old)
			hashes := must[tlog.TreeProof](t)(tlog.ProveTree(size, old, m))
			if err := c.CheckConsistency(before, hashes); err != nil {
				t.Errorf("%d after %d: %v", size, old, err)
			}
			if fork := other.checkpoint(t, size); size > place {
				forked := must[tlog.TreeProof](t)(tlog.ProveTree(size, old, other))
				if err := fork.CheckConsistency(before, forked); old > place && !errors.Is(err, receiptlog.ErrConsistency) {
					t.Errorf("a fork at %d after %d: %v", size, old, err)
				}
			}
			if err := before.CheckConsistency(c, hashes); !errors.Is(err, receiptlog.ErrConsistency) {
				t.Errorf("%d after %d: %v", old, size, err)
			}
		}
	}
}

func TestProof_EmptyAndSameTreeNeedNone(t *testing.T) {
	m := sample(t, 9)
	c, empty := m.checkpoint(t, 9), m.checkpoint(t, 0)
	for name, test := range map[string]struct {
		old    receiptlog.Checkpoint
		hashes []tlog.Hash
		good   bool
	}{
		"empty": {old: empty, good: true}, "same": {old: c, good: true},
		"empty with a proof": {old: empty, hashes: make([]tlog.Hash, 1)}, "same with a proof": {old: c, hashes: make([]tlog.Hash, 1)},
		"same size, other root": {old: receiptlog.Checkpoint{Origin: origin, Size: 9}},
		"other origin":          {old: receiptlog.Checkpoint{Origin: "x", Size: 0, Root: empty.Root}},
	} {
		if err := c.CheckConsistency(test.old, test.hashes); test.good != (err == nil) || err != nil && !errors.Is(err, receiptlog.ErrConsistency) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProof_IsReadAsWritten(t *testing.T) {
	m := sample(t, 300)
	for _, index := range []int64{0, 1, place, 255, 299} {
		data := m.proof(t, index, m.signed(t, 0, 1)).Bytes()
		p, err := receiptlog.ParseProof(data)
		if err != nil || !bytes.Equal(p.Bytes(), data) {
			t.Errorf("%s\n%v", data, err)
		}
	}
	add := receiptlog.AddCheckpoint{Old: 8, Hashes: must[tlog.TreeProof](t)(tlog.ProveTree(300, 8, m)), Checkpoint: m.signed(t)}
	if got, err := receiptlog.ParseAddCheckpoint(add.Bytes()); err != nil || !bytes.Equal(got.Bytes(), add.Bytes()) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestProof_HasOneSpelling(t *testing.T) {
	m := sample(t, 4)
	good := string(m.proof(t, 1, m.signed(t)).Bytes())
	first := strings.Split(good, "\n")[2]
	for name, text := range map[string]string{
		"empty": "", "header alone": receiptlog.ProofHeader + "\n", "another version": strings.Replace(good, "@v1", "@v2", 1),
		"extra": strings.Replace(good, "index", "extra AAAA\nindex", 1), "index 01": strings.Replace(good, "index 1", "index 01", 1),
		"no word before the index": strings.Replace(good, "index 1", "1", 1),
		"index -1":                 strings.Replace(good, "index 1", "index -1", 1), "index of 2^63": strings.Replace(good, "index 1", "index 9223372036854775808", 1),
		"two indexes": strings.Replace(good, "index 1", "index 1\nindex 1", 1), "short hash": strings.Replace(good, first, first[4:], 1),
		"hash without padding": strings.Replace(good, first, first[:43], 1), "white space": strings.Replace(good, first, " "+first, 1),
		"carriage return": strings.ReplaceAll(good, "\n", "\r\n"), "no note": good[:strings.Index(good, "\n\n")+2],
		"too many hashes": strings.Replace(good, first, strings.Repeat(first+"\n", 60)+first, 1), "too large": good + strings.Repeat("a", 1<<20),
	} {
		judgeAlike(t, nil, []byte(text), nil, nil)
		if p, err := receiptlog.ParseProof([]byte(text)); !errors.Is(err, receiptlog.ErrMalformed) {
			t.Errorf("%s is read as %+v, %v", name, p, err)
		}
	}
}

// Every bit of a proof counts: no other bytes prove the same receipt. A line of a key
// that the policy does not list is the exception, and a proof that a log makes has none.
func TestProof_NoOtherBytesProve(t *testing.T) {
	m := sample(t, 20)
	data := m.proof(t, place, m.signed(t, 0, 1)).Bytes()
	doc, keys, p := document(t, "base", "response.json"), keyDocument(t), policy(t, "two")
	for i := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			if bit == i%8 {
				judgeAlike(t, nil, changed, nil, nil)
			}
			if got, err := receiptlog.Verify(doc, keys, changed, p); err == nil {
				t.Errorf("byte %d, %q for %q: %+v", i, changed[i], data[i], got)
			}
		}
		if _, err := receiptlog.Verify(doc, keys, data[:i], p); err == nil {
			t.Errorf("the first %d of %d bytes verify", i, len(data))
		}
	}
	if _, err := receiptlog.Verify(doc, keys, data, p); err != nil {
		t.Error(err)
	}
}

// The vectors of RFC 6962's reference implementation (certificate-transparency,
// merkletree): the roots of the first n of eight leaves.
func TestProof_TreeIsThatOfRFC6962(t *testing.T) {
	m := &memory{}
	for n, want := range []string{
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	} {
		m.add(t, []byte([]string{
			"", "\x00", "\x10", " !", "01", "@ABC", "PQRSTUVW", "`abcdefghijklmno",
		}[n]))
		c := m.checkpoint(t, int64(n+1))
		if got := fmt.Sprintf("%x", c.Root[:]); got != want {
			t.Errorf("root of %d leaves is %s, not %s", n+1, got, want)
		}
	}
}
