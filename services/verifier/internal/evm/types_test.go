package evm

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// The fields of Arbitrum's types, as Nitro declares them: the RLP library encodes
// these structs by reflection, our encoder must agree with it.
type (
	arbDeposit struct {
		ChainID     *big.Int
		L1RequestID common.Hash
		From, To    common.Address
		Value       *big.Int
	}
	arbUnsigned struct {
		ChainID   *big.Int
		From      common.Address
		Nonce     uint64
		GasFeeCap *big.Int
		Gas       uint64
		To        *common.Address `rlp:"nil"`
		Value     *big.Int
		Data      []byte
	}
	arbContract struct {
		ChainID   *big.Int
		RequestID common.Hash
		From      common.Address
		GasFeeCap *big.Int
		Gas       uint64
		To        *common.Address `rlp:"nil"`
		Value     *big.Int
		Data      []byte
	}
	arbRetry struct {
		ChainID             *big.Int
		Nonce               uint64
		From                common.Address
		GasFeeCap           *big.Int
		Gas                 uint64
		To                  *common.Address `rlp:"nil"`
		Value               *big.Int
		Data                []byte
		TicketID            common.Hash
		RefundTo            common.Address
		MaxRefund           *big.Int
		SubmissionFeeRefund *big.Int
	}
	arbSubmitRetryable struct {
		ChainID          *big.Int
		RequestID        common.Hash
		From             common.Address
		L1BaseFee        *big.Int
		DepositValue     *big.Int
		GasFeeCap        *big.Int
		Gas              uint64
		RetryTo          *common.Address `rlp:"nil"`
		RetryValue       *big.Int
		Beneficiary      common.Address
		MaxSubmissionFee *big.Int
		FeeRefundAddr    common.Address
		RetryData        []byte
	}
)

var (
	arbOne  = big.NewInt(42161)
	alice   = common.HexToAddress("0xa11ce00000000000000000000000000000000000")
	bob     = common.HexToAddress("0xb0b0000000000000000000000000000000000000")
	carol   = common.HexToAddress("0xca20100000000000000000000000000000000000")
	ticket  = common.HexToHash("0x7100000000000000000000000000000000000000000000000000000000000001")
	toBob   = chain.Address(bob)
	calling = chain.Selector{0xaa, 0xbb, 0xcc, 0xdd}
	seven   = uint64(7)
)

// arbitrum has, for each type, what RPC returns, what Nitro hashes, and the facts.
var arbitrum = map[string]struct {
	kind  byte
	told  string
	inner any
	facts chain.Transaction
}{
	"deposit": {
		0x64, `"requestId":"` + ticket.Hex() + `","to":"` + bob.Hex() + `","value":"0x5","input":"0x","nonce":"0x0"`,
		&arbDeposit{arbOne, ticket, alice, bob, big.NewInt(5)},
		chain.Transaction{To: &toBob, Value: big.NewInt(5)},
	},
	"unsigned": {
		0x65, `"to":"` + bob.Hex() + `","value":"0x5","input":"0xaabbccddee","nonce":"0x7","gas":"0x5208","maxFeePerGas":"0x3b9aca00","gasPrice":"0x1"`,
		&arbUnsigned{arbOne, alice, 7, big.NewInt(1e9), 21000, &bob, big.NewInt(5), common.FromHex("aabbccddee")},
		chain.Transaction{To: &toBob, Value: big.NewInt(5), Selector: &calling, Nonce: &seven},
	},
	"contract": {
		0x66, `"requestId":"` + ticket.Hex() + `","to":"` + bob.Hex() + `","value":"0x0","input":"0xaabbccdd","nonce":"0x7","gas":"0x5208","maxFeePerGas":"0x3b9aca00"`,
		&arbContract{arbOne, ticket, alice, big.NewInt(1e9), 21000, &bob, new(big.Int), common.FromHex("aabbccdd")},
		chain.Transaction{To: &toBob, Value: new(big.Int), Selector: &calling},
	},
	"contract that creates": {
		0x66, `"requestId":"` + ticket.Hex() + `","to":null,"value":"0x0","input":"0xaabbccdd","gas":"0x5208","maxFeePerGas":"0x3b9aca00"`,
		&arbContract{arbOne, ticket, alice, big.NewInt(1e9), 21000, nil, new(big.Int), common.FromHex("aabbccdd")},
		chain.Transaction{Value: new(big.Int)},
	},
	"retry": {
		0x68, `"to":"` + bob.Hex() + `","value":"0x5","input":"0xaabbccdd","nonce":"0x7","gas":"0x5208","maxFeePerGas":"0x3b9aca00",` +
			`"ticketId":"` + ticket.Hex() + `","refundTo":"` + carol.Hex() + `","maxRefund":"0x10","submissionFeeRefund":"0x11"`,
		&arbRetry{arbOne, 7, alice, big.NewInt(1e9), 21000, &bob, big.NewInt(5), common.FromHex("aabbccdd"), ticket, carol, big.NewInt(16), big.NewInt(17)},
		chain.Transaction{To: &toBob, Value: big.NewInt(5), Selector: &calling, Nonce: &seven},
	},
	"submit retryable": {
		0x69, `"to":"0x000000000000000000000000000000000000006e","value":"0x5","input":"0xc9f95d3200","nonce":"0x0","gas":"0x5208","maxFeePerGas":"0x3b9aca00",` +
			`"requestId":"` + ticket.Hex() + `","l1BaseFee":"0x12","depositValue":"0x13","retryTo":"` + bob.Hex() + `","retryValue":"0x14",` +
			`"beneficiary":"` + carol.Hex() + `","maxSubmissionFee":"0x15","refundTo":"` + alice.Hex() + `","retryData":"0xaabb"`,
		&arbSubmitRetryable{arbOne, ticket, alice, big.NewInt(18), big.NewInt(19), big.NewInt(1e9), 21000, &bob, big.NewInt(20), carol, big.NewInt(21), alice, common.FromHex("aabb")},
		chain.Transaction{To: &arbRetryableTxAddress, Value: new(big.Int), Selector: &submitRetryableSelector},
	},
}

func TestTypes_ArbitrumsEncodeAsNitroDoes(t *testing.T) {
	for name, c := range arbitrum {
		t.Run(name, func(t *testing.T) {
			var told Transaction
			text := `{"type":"` + fmt.Sprintf("0x%x", c.kind) + `","chainId":"0xa4b1","from":"` + alice.Hex() + `",` + c.told + `}`
			if err := Decode([]byte(text), &told); err != nil {
				t.Fatal(err)
			}
			got, err := told.Encode()
			if err != nil {
				t.Fatal(err)
			}
			inner, err := rlp.EncodeToBytes(c.inner)
			if err != nil {
				t.Fatal(err)
			}
			if want := append([]byte{c.kind}, inner...); !bytes.Equal(got, want) {
				t.Errorf("got  %x\nwant %x", got, want)
			}
			want := c.facts
			want.Type, want.From, want.SenderMethod = c.kind, chain.Address(alice), chain.SenderInPreimage
			facts, signed := told.facts(c.kind, &Receipt{Status: Quantity{1}})
			if diff := cmp.Diff(want, facts, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); diff != "" || signed != nil {
				t.Error(diff, signed)
			}
		})
	}
}

func TestTypes_ThatCannotBeRebuiltAreRefused(t *testing.T) {
	for _, kind := range []string{"0x5", "0x63", "0x67", "0x6b", "0x78", "0x7d", "0x7f", "0x80", "0xff", "0x100000000000000000"} {
		var told Transaction
		if err := Decode([]byte(`{"type":"`+kind+`"}`), &told); err != nil {
			t.Fatal(err)
		}
		if _, err := told.Encode(); err == nil || !errors.Is(err, chain.ErrUnsupportedType) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// part reads a recording that is not a whole block.
func part(t *testing.T, name string, into any) {
	t.Helper()
	file, err := os.Open(filepath.Join(chaintest.Folder(), name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(unzipped).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func TestTypes_TodaysBaseDepositIsRead(t *testing.T) {
	var recording struct {
		Tx      Transaction
		Receipt Receipt
	}
	part(t, "base-mainnet-deposit-52158111", &recording)
	encoded, err := recording.Tx.Encode()
	if err != nil || crypto.Keccak256Hash(encoded) != *recording.Tx.Hash {
		t.Errorf("hash: %v", err)
	}
	facts, _ := recording.Tx.facts(opDepositType, &recording.Receipt)
	if facts.Nonce == nil || *facts.Nonce != 0x31bdea2 || facts.Selector.String() != "0x3db6be2b" {
		t.Errorf("facts %+v", facts)
	}
}

func TestTypes_TodaysOptimismHeaderRecomputes(t *testing.T) {
	var recording struct{ Block Header }
	part(t, "op-mainnet-header-157796868", &recording)
	if _, err := recording.Block.ProveHeader(157796868, *recording.Block.Hash); err != nil {
		t.Error(err)
	}
}

// TestTypes_DepositReceiptsHaveThreeEncodings: before Regolith nodes return no nonce,
// then one that is not hashed, since Canyon one that is.
func TestTypes_DepositReceiptsHaveThreeEncodings(t *testing.T) {
	base := Receipt{Status: Quantity{1}, CumulativeGasUsed: Quantity{5}}
	regolith, canyon := base, base
	regolith.DepositNonce = Quantity{9}
	canyon.DepositNonce, canyon.DepositReceiptVersion = Quantity{9}, Quantity{1}
	fields := func(r Receipt) int {
		t.Helper()
		encoded, err := r.Encode(opDepositType)
		if err != nil {
			t.Fatal(err)
		}
		content, _, err := rlp.SplitList(encoded[1:])
		if err != nil {
			t.Fatal(err)
		}
		count, err := rlp.CountValues(content)
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	if got := []int{fields(base), fields(regolith), fields(canyon)}; !cmp.Equal(got, []int{4, 4, 6}) {
		t.Errorf("fields %v", got)
	}
	var tx Transaction
	if tx.nonce(opDepositType, &regolith) != nil || *tx.nonce(opDepositType, &canyon) != 9 {
		t.Error("the nonce counts only when it is hashed")
	}
}

func TestTypes_LegacySignaturesWithAndWithoutAChain(t *testing.T) {
	for _, c := range []struct {
		v       uint64
		bit     byte
		chainID []byte
	}{
		{27, 0, nil},
		{28, 1, nil},
		{0, noRecoveryBit, nil},
		{1, noRecoveryBit, nil},
		{29, noRecoveryBit, nil},
		{34, noRecoveryBit, nil},
		{35, 0, []byte{}},
		{36, 1, []byte{}},
		{37, 0, []byte{1}},
		{38, 1, []byte{1}},
		{2*8453 + 35, 0, []byte{0x21, 0x05}},
	} {
		bit, chainID := splitLegacyV(quantityOf(c.v))
		if bit != c.bit || !cmp.Equal(chainID, c.chainID) {
			t.Errorf("v %d: bit %v, chain %v", c.v, bit, chainID)
		}
	}
}
