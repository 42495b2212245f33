package evm

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

var errSignature = errors.New("no sender follows from the signature")

// recoverSender fills in the sender that the signature, which begins at member
// at, proves. A signature in the upper half of the curve is accepted, because
// blocks before Homestead have them.
func recoverSender(tx *Transaction, items []rlp.Item, at int) error {
	r := reader{items: items}
	v, parts := r.big(at), [2]*big.Int{r.big(at + 1), r.big(at + 2)}
	if r.err != nil {
		return fmt.Errorf("signature: %w", r.err)
	}
	parity, err := yParity(tx, v)
	if err != nil {
		return err
	}
	var compact [65]byte
	compact[0] = 27 + parity
	parts[0].FillBytes(compact[1:33])
	parts[1].FillBytes(compact[33:])
	digest := signingHash(tx, items[:at])
	public, _, err := ecdsa.RecoverCompact(compact[:], digest[:])
	if err != nil {
		return fmt.Errorf("%w: %w", errSignature, err)
	}
	key := Keccak256(public.SerializeUncompressed()[1:])
	copy(tx.From[:], key[12:])
	tx.Signed = true
	return nil
}

// yParity reads which of two points a signature means, and for a legacy
// transaction also the chain id: v is 27 or 28 without one, chain id * 2 + 35 or
// 36 with one (EIP-155).
func yParity(tx *Transaction, v *big.Int) (byte, error) {
	if tx.Type == typeLegacy {
		offset := big.NewInt(27)
		if v.Cmp(big.NewInt(35)) >= 0 {
			tx.ChainID = new(big.Int).Sub(v, big.NewInt(35))
			tx.ChainID.Rsh(tx.ChainID, 1)
			offset = new(big.Int).Add(big.NewInt(35), new(big.Int).Lsh(tx.ChainID, 1))
		}
		v = new(big.Int).Sub(v, offset)
	}
	if !v.IsUint64() || v.Uint64() > 1 {
		return 0, errSignature
	}
	return byte(v.Uint64()), nil
}

// signingHash is what the sender signed: the members before the signature, for
// legacy ones with a chain id also that and two zeros.
func signingHash(tx *Transaction, members []rlp.Item) Hash {
	var body []byte
	for _, member := range members {
		body = append(body, member.Raw...)
	}
	if tx.Type != typeLegacy {
		return Keccak256(rlp.AppendList([]byte{tx.Type}, body))
	}
	if tx.ChainID != nil {
		body = rlp.AppendString(body, tx.ChainID.Bytes())
		body = rlp.AppendUint(rlp.AppendUint(body, 0), 0)
	}
	return Keccak256(rlp.AppendList(nil, body))
}
