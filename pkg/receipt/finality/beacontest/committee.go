package beacontest

import (
	"crypto/sha256"
	"math/big"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// committeeSize is SYNC_COMMITTEE_SIZE of the mainnet preset.
const committeeSize = 512

// domain is the domain separation tag of Ethereum's BLS signatures.
var domain = []byte("BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_")

// committee is a sync committee with its secret keys.
type committee struct {
	lightclient.SyncCommittee
	root finality.Root // its hash-tree-root
	// first is the secret key of member 0. That of each next member is one more, so that
	// its public key is the one before plus the generator, which is quick to compute.
	first *big.Int
}

// newCommittee derives the keys from a public text.
func newCommittee(seed string) *committee {
	h := sha256.Sum256([]byte(seed))
	c := &committee{first: new(big.Int).SetBytes(h[:])}
	_, _, generator, _ := bls12381.Generators()
	keys := make([]bls12381.G1Jac, committeeSize)
	keys[0].FromAffine(new(bls12381.G1Affine).ScalarMultiplicationBase(c.first))
	sum := keys[0]
	for i := 1; i < committeeSize; i++ {
		keys[i] = keys[i-1]
		keys[i].AddMixed(&generator)
		sum.AddAssign(&keys[i])
	}
	c.Pubkeys = make([]finality.PublicKey, committeeSize)
	for i, key := range bls12381.BatchJacobianToAffineG1(keys) {
		c.Pubkeys[i] = key.Bytes()
	}
	c.AggregatePubkey = new(bls12381.G1Affine).FromJacobian(&sum).Bytes()
	c.root = c.HashTreeRoot()
	return c
}

// sign returns the aggregate signature of the members whose bits are set. It signs once,
// with the sum of their secret keys.
func (c *committee) sign(message finality.Root, bits []byte) (finality.Signature, error) {
	secret, one := new(big.Int), new(big.Int)
	for i := range committeeSize {
		if bits[i/8]>>(i%8)&1 == 1 {
			secret.Add(secret, c.first).Add(secret, one.SetInt64(int64(i)))
		}
	}
	hashed, err := bls12381.HashToG2(message[:], domain)
	if err != nil {
		return finality.Signature{}, err
	}
	return new(bls12381.G2Affine).ScalarMultiplication(&hashed, secret.Mod(secret, fr.Modulus())).Bytes(), nil
}
