package receiptlog_test

import (
	"errors"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// withKey returns the key document with the signing key in another state.
func withKey(t testing.TB, status string, logged *receipt.Logged) receipt.KeyDocument {
	t.Helper()
	doc := keyDocument(t)
	key := doc.Keys[0]
	key.Status, key.Logged = status, logged
	other := must[*receipt.SigningKey](t)(receipt.NewKeyFromSeed(seeded("next receipt key").Seed()))
	return must[receipt.KeyDocument](t)(receipt.NewKeyDocument(other, doc.Chain, key))
}

func TestALoggedReceiptIsJudgedByTheStateOfItsKey(t *testing.T) {
	m := sample(t, 20)
	proof := m.proof(t, place, m.signed(t, 0, 1)).Bytes()
	cutOff := func(origin, before string) *receipt.Logged { return &receipt.Logged{Origin: origin, Before: before} }
	for name, test := range map[string]struct {
		keys receipt.KeyDocument
		want error
	}{
		"active":                 {keyDocument(t), nil},
		"next":                   {withKey(t, receipt.KeyNext, nil), nil},
		"retired":                {withKey(t, receipt.KeyRetired, nil), nil},
		"revoked":                {withKey(t, receipt.KeyRevoked, nil), receipt.ErrRevokedKey},
		"revoked later":          {withKey(t, receipt.KeyRevoked, cutOff(origin, "8")), nil},
		"revoked at this entry":  {withKey(t, receipt.KeyRevoked, cutOff(origin, "7")), receipt.ErrRevokedKey},
		"revoked before all":     {withKey(t, receipt.KeyRevoked, cutOff(origin, "0")), receipt.ErrRevokedKey},
		"revoked by another log": {withKey(t, receipt.KeyRevoked, cutOff("verifier.example.com/v1/log/2", "8")), receipt.ErrRevokedKey},
		"not listed":             {must[receipt.KeyDocument](t)(receipt.NewKeyDocument(must[*receipt.SigningKey](t)(receipt.GenerateKey()), "eip155:1")), receipt.ErrUnknownKey},
	} {
		got, err := receiptlog.Verify(document(t, "base", "response.json"), test.keys, proof, policy(t, "two"))
		if !errors.Is(err, test.want) || err == nil && (got.Index != place || got.Key.KeyID != keyDocument(t).KeyID) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Without a proof of where the log has it, a cut-off spares nothing.
func TestACutOffDoesNotSpareAReceiptWithoutALogProof(t *testing.T) {
	keys := withKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: origin, Before: "8"})
	if _, err := receipt.Verify(readFile(t, "../testdata/vectors/base/response.json"), keys); !errors.Is(err, receipt.ErrRevokedKey) {
		t.Error(err)
	}
}

func TestALogProofIsOfOneReceipt(t *testing.T) {
	m := sample(t, 20)
	proof := m.proof(t, place, m.signed(t, 0, 1)).Bytes()
	if _, err := receiptlog.Verify(document(t, "base", "dsse.json"), keyDocument(t), proof, policy(t, "two")); err != nil {
		t.Errorf("as a DSSE envelope: %v", err)
	}
	for _, other := range []string{"arbitrum", "transfer-usdc"} {
		doc := document(t, other, "response.json")
		if got, err := receiptlog.Verify(doc, keyDocument(t), proof, policy(t, "two")); !errors.Is(err, receiptlog.ErrInclusion) {
			t.Errorf("%s: %+v, %v", other, got, err)
		}
	}
}

func TestALogProofIsJudgedByThePolicy(t *testing.T) {
	m := sample(t, 20)
	doc, keys := document(t, "base", "response.json"), keyDocument(t)
	note := m.signed(t, 0, 1)
	for name, test := range map[string]struct {
		policy receiptlog.Policy
		note   []byte
		want   error
	}{
		"two of three":    {policy(t, "two"), note, nil},
		"none asked":      {policy(t, "none"), m.signed(t), nil},
		"one of two":      {policy(t, "two"), m.signed(t, 1), receiptlog.ErrQuorum},
		"another witness": {policy(t, "w2"), note, receiptlog.ErrQuorum},
		"another log":     {must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte("quorum none\n"))), note, receiptlog.ErrUnknownLog},
		"no policy":       {receiptlog.Policy{}, note, receiptlog.ErrUnknownLog},
	} {
		if _, err := receiptlog.Verify(doc, keys, m.proof(t, place, test.note).Bytes(), test.policy); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASignatureThatDoesNotMatchIsRefusedWhateverTheKeysState(t *testing.T) {
	m := sample(t, 20)
	proof := m.proof(t, place, m.signed(t, 0, 1)).Bytes()
	doc := document(t, "base", "response.json")
	doc.Signature.Value = document(t, "arbitrum", "response.json").Signature.Value
	for name, keys := range map[string]receipt.KeyDocument{
		"active": keyDocument(t), "revoked later": withKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: origin, Before: "8"}),
	} {
		if got, err := receiptlog.Verify(doc, keys, proof, policy(t, "two")); !errors.Is(err, receipt.ErrSignature) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
