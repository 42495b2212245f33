package receipt_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/internal/evm"
	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

var (
	zeroHash  = make([]byte, 32)
	deployer  = []byte{0x5e, 19: 1}
	bloom     = make([]byte, 256)
	emptyList = rlp.AppendList(nil, nil)
)

// encoded writes a list out of bytes and numbers, with a type in front.
func encoded(kind byte, members ...any) []byte {
	var items []byte
	for _, member := range members {
		switch member := member.(type) {
		case int:
			items = rlp.AppendUint(items, uint64(member))
		case []byte:
			items = rlp.AppendString(items, member)
		}
	}
	return append([]byte{kind}, rlp.AppendList(nil, items)...)
}

// outcomeOf is a receipt without logs. A deposit's nonce is added when it is there.
func outcomeOf(kind byte, status, depositNonce int) []byte {
	items := rlp.AppendUint(nil, uint64(status))
	items = append(rlp.AppendString(rlp.AppendUint(items, 21000), bloom), emptyList...)
	if depositNonce > 0 {
		items = rlp.AppendUint(rlp.AppendUint(items, uint64(depositNonce)), 1)
	}
	return append([]byte{kind}, rlp.AppendList(nil, items)...)
}

// alone puts a transaction and its receipt into a block of their own.
func alone(transaction, outcome []byte) receipt.Proof {
	transactions, outcomes := indexedTrie([][]byte{transaction}), indexedTrie([][]byte{outcome})
	var header []byte
	for place := range 15 {
		switch place {
		case 4:
			root := transactions.Root()
			header = rlp.AppendString(header, root[:])
		case 5:
			root := outcomes.Root()
			header = rlp.AppendString(header, root[:])
		case 8, 11:
			header = rlp.AppendUint(header, uint64(place))
		default:
			header = rlp.AppendString(header, zeroHash)
		}
	}
	key := rlp.AppendUint(nil, 0)
	return receipt.Proof{
		HeaderRLP: rlp.AppendList(nil, header), Index: "0",
		Transaction: []receipt.Hex{transactions.Proof(key)[0]}, Receipt: []receipt.Hex{outcomes.Proof(key)[0]},
	}
}

func TestContract_AddressFollowsFromProvenNonceOnly(t *testing.T) {
	creation := []byte{0x60, 0x80}
	address := func(nonce uint64) string {
		made := evm.ContractAddress(evm.Address(deployer), nonce)
		return receipt.Hex(made[:]).String()
	}
	unsigned := encoded(0x65, 42161, deployer, 9, 1, 1, []byte{}, 0, creation)
	deposit := encoded(0x7e, zeroHash, deployer, []byte{}, 0, 0, 1, 0, creation)
	retry := encoded(0x68, 42161, 9, deployer, 1, 1, []byte{}, 0, creation, zeroHash, deployer, 0, 0)
	for _, c := range []struct {
		name                 string
		transaction, outcome []byte
		nonce, made          string
	}{
		{"an account's nonce", unsigned, outcomeOf(0x65, 1, 0), "9", address(9)},
		{"a creation that was reverted", unsigned, outcomeOf(0x65, 0, 0), "9", "null"},
		{"a deposit from Canyon on", deposit, outcomeOf(0x7e, 1, 77), "77", address(77)},
		{"a deposit before Canyon", deposit, outcomeOf(0x7e, 1, 0), "null", "null"},
		{"a retry, whose nonce counts retries", retry, outcomeOf(0x68, 1, 0), "9", "null"},
	} {
		// An empty receipt agrees with nothing, so the fault names what is proven.
		_, _, err := receipt.VerifyProof(receipt.Receipt{}, alone(c.transaction, c.outcome))
		if !errors.Is(err, receipt.ErrProof) {
			t.Errorf("%s: error %v", c.name, err)
			continue
		}
		// Where null is right, the empty receipt has it already.
		for field, want := range map[string]string{"nonce": c.nonce, "contractAddress": c.made} {
			reported := strings.Contains(err.Error(), "transaction."+field+" is ")
			if want == "null" && reported || want != "null" && !strings.Contains(err.Error(), "transaction."+field+" is "+want+",") {
				t.Errorf("%s: %s must be %s: %v", c.name, field, want, err)
			}
		}
	}
}

func TestProof_TransactionAndReceiptAreOfOneType(t *testing.T) {
	unsigned := encoded(0x65, 42161, deployer, 9, 1, 1, deployer, 0, []byte{})
	_, _, err := receipt.VerifyProof(receipt.Receipt{}, alone(unsigned, outcomeOf(0x66, 1, 0)))
	if !errors.Is(err, receipt.ErrProof) || !strings.Contains(err.Error(), "different types") {
		t.Errorf("error %v", err)
	}
}
