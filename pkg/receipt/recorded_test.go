package receipt_test

import (
	"encoding/hex"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

func TestRecorded_EveryTransactionIsProven(t *testing.T) {
	types := map[string]bool{}
	for _, block := range allBlocks(t) {
		t.Run(block.Name, func(t *testing.T) {
			for i := range block.Len() {
				types[block.Type(i)] = true
				r := block.Receipt(i, receipt.Expectations{})
				r = block.Receipt(i, expected(r, 12))
				if _, _, err := receipt.VerifyProof(r, block.Proof(i)); err != nil {
					t.Errorf("transaction %d (type %s): %v", i, block.Type(i), err)
				}
				if _, err := receipt.Canonical(r); err != nil {
					t.Errorf("transaction %d (type %s): %v", i, block.Type(i), err)
				}
			}
		})
	}
	for _, kind := range []string{"0x0", "0x1", "0x2", "0x3", "0x4", "0x6a", "0x7e"} {
		if !types[kind] {
			t.Errorf("no recorded transaction of type %s", kind)
		}
	}
}

// testSeed is that of the vectors' key: RFC 8032 section 7.1, test 1.
const testSeed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"

func testKey(t testing.TB) *receipt.SigningKey {
	t.Helper()
	seed, err := hex.DecodeString(testSeed)
	if err != nil {
		t.Fatal(err)
	}
	key, err := receipt.NewKeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
