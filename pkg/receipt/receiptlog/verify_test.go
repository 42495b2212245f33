package receiptlog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestVerify_ALoggedReceiptIsJudgedByItsKeysState(t *testing.T) {
	m := sample(t, 20)
	proof := m.proof(t, place, m.signed(t, 0, 1)).Bytes()
	cutOff := func(origin, before string) *receipt.Logged { return &receipt.Logged{Origin: origin, Before: before} }
	for name, test := range map[string]struct {
		keys receipt.KeyDocument
		want error
	}{
		"active":                {keyDocument(t), nil},
		"next":                  {withKey(t, receipt.KeyNext, nil), nil},
		"retired":               {withKey(t, receipt.KeyRetired, nil), nil},
		"revoked":               {withKey(t, receipt.KeyRevoked, nil), receipt.ErrRevokedKey},
		"revoked later":         {withKey(t, receipt.KeyRevoked, cutOff(origin, "8")), nil},
		"revoked at this entry": {withKey(t, receipt.KeyRevoked, cutOff(origin, "7")), receipt.ErrRevokedKey},
		"revoked before all":    {withKey(t, receipt.KeyRevoked, cutOff(origin, "0")), receipt.ErrRevokedKey},
		"revoked in a later log": {withKey(t, receipt.KeyRevoked, &receipt.Logged{
			Origin: "verifier.example.com/v1/log/2", Before: "1", Earlier: []receipt.Logged{*cutOff(origin, "8")},
		}), nil},
		"revoked by another log": {withKey(t, receipt.KeyRevoked, cutOff("verifier.example.com/v1/log/2", "8")), receipt.ErrRevokedKey},
		"not listed":             {must[receipt.KeyDocument](t)(receipt.NewKeyDocument(must[*receipt.SigningKey](t)(receipt.GenerateKey()), "eip155:1")), receipt.ErrUnknownKey},
	} {
		judgeAlike(t, &test.keys, proof, []byte(policyText(t, "two")), nil)
		got, err := receiptlog.Verify(document(t, "base", "response.json"), test.keys, proof, policy(t, "two"))
		if !errors.Is(err, test.want) || err == nil && (got.Index != place || got.Key.KeyID != keyDocument(t).KeyID) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Without a proof of where the log has it, a cut-off spares nothing.
func TestVerify_ACutOffSparesNoReceiptWithoutALogProof(t *testing.T) {
	keys := withKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: origin, Before: "8"})
	if _, err := receipt.Verify(readFile(t, "../testdata/vectors/base/response.json"), keys); !errors.Is(err, receipt.ErrRevokedKey) {
		t.Error(err)
	}
}

func TestVerify_ALogProofIsOfOneReceipt(t *testing.T) {
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

func TestVerify_ALogProofIsJudgedByThePolicy(t *testing.T) {
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

func TestVerify_ABadSignatureIsRefusedInEveryKeyState(t *testing.T) {
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

// generation returns the signer of a generation of the test's log, by its own key.
func generation(t testing.TB, n int) *receiptlog.Signer {
	return must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(fmt.Sprintf("verifier.example.com/v1/log/%d", n), seeded("log")))
}

// list returns a verifier's list of generations, each but the last closed with its sample.
func list(t testing.TB, logs ...receiptlog.Generation) receiptlog.Directory {
	t.Helper()
	text := must[[]byte](t)(json.Marshal(receiptlog.Directory{Logs: logs, Policy: policyText(t, "two")}))
	return must[receiptlog.Directory](t)(receiptlog.ParseDirectory(text))
}

func open(t testing.TB, n int) receiptlog.Generation {
	s := generation(t, n)
	return receiptlog.Generation{Origin: s.Name(), Key: s.Key.String(), Prefix: fmt.Sprintf("/v1/log/%d", n), From: "2026-11-22T00:00:00Z"}
}

func TestVerify_RefusesALogThatTheVerifierDoesNotList(t *testing.T) {
	m := sample(t, 20)
	doc, keys := document(t, "base", "response.json"), keyDocument(t)
	// A tree under the name of the next generation, which honest witnesses have cosigned.
	hidden := m.checkpoint(t, 20)
	hidden.Origin = generation(t, 2).Name()
	note := must[[]byte](t)(hidden.Sign(generation(t, 2)))
	for n := range 2 {
		note = append(note, must[[]byte](t)(hidden.Cosign(witness(t, n)))...)
	}
	first, second := m.proof(t, place, m.signed(t, 0, 1)).Bytes(), m.proof(t, place, note).Bytes()
	line := func(n int) string { return "log " + generation(t, n).Key.String() + "\n" }
	one, three := policyText(t, "two"), policyText(t, "two")+line(2)+line(3)
	closed := func(size int64) receiptlog.Generation {
		g := open(t, 1)
		g.To, g.Final = g.From, string(must[[]byte](t)(m.checkpoint(t, size).Sign(logSigner(t))))
		return g
	}
	stolen := open(t, 2)
	stolen.Key = must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(stolen.Origin, seeded("the new key"))).Key.String()
	other := open(t, 1)
	other.Origin = "another.example.com/v1/log/1"
	other.Key = must[*receiptlog.Signer](t)(receiptlog.NewLogSigner(other.Origin, seeded("log"))).Key.String()
	for name, c := range map[string]struct {
		policy string
		list   []receiptlog.Generation
		proof  []byte
		want   error
	}{
		"one generation":                        {one, nil, first, nil},
		"one generation, hidden":                {one, nil, second, receiptlog.ErrUnknownLog},
		"several generations":                   {three, nil, first, receiptlog.ErrUnlisted},
		"several generations, hidden":           {three, nil, second, receiptlog.ErrUnlisted},
		"listed":                                {three, []receiptlog.Generation{open(t, 1)}, first, nil},
		"not listed":                            {three, []receiptlog.Generation{open(t, 1)}, second, receiptlog.ErrUnlisted},
		"listed as another key's":               {three, []receiptlog.Generation{stolen, closed(10)}, second, receiptlog.ErrUnlisted},
		"listed, the next generation":           {three, []receiptlog.Generation{open(t, 2), closed(10)}, second, nil},
		"closed after the entry":                {three, []receiptlog.Generation{open(t, 2), closed(place + 1)}, first, nil},
		"closed before the entry":               {three, []receiptlog.Generation{open(t, 2), closed(place)}, first, receiptlog.ErrUnlisted},
		"another verifier's list":               {one, []receiptlog.Generation{other}, first, nil},
		"another verifier's list, several":      {three, []receiptlog.Generation{other}, second, receiptlog.ErrUnlisted},
		"closed before the entry, one listed":   {one, []receiptlog.Generation{open(t, 2), closed(place)}, first, receiptlog.ErrUnlisted},
		"a log of no generation, beside others": {three, []receiptlog.Generation{open(t, 3)}, first, receiptlog.ErrUnlisted},
	} {
		p := must[receiptlog.Policy](t)(receiptlog.ParsePolicy([]byte(c.policy)))
		var listed []byte
		if c.list != nil {
			d := list(t, c.list...)
			p, listed = p.WithList(d), encode(t, d)
		}
		judgeAlike(t, nil, c.proof, []byte(c.policy), listed)
		if _, err := receiptlog.Verify(doc, keys, c.proof, p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestOrigins_NamesTheGenerationsToCome(t *testing.T) {
	got := policy(t, "two").Origins(list(t, open(t, 2)))
	want := []string{}
	for n := range 5 {
		want = append(want, fmt.Sprintf("verifier.example.com/v1/log/%d", n+1))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpenCosigned_TakesTheWitnessesOwnSignatureAlone(t *testing.T) {
	m := sample(t, 20)
	c, when, err := receiptlog.OpenCosigned(m.signed(t, 0, 1), witness(t, 1).Key)
	if err != nil || c != m.checkpoint(t, 20) || !when.Equal(at()) {
		t.Errorf("%+v, %v, %v", c, when, err)
	}
	for name, key := range map[string]receiptlog.Key{"another witness": witness(t, 2).Key, "the log": logSigner(t).Key} {
		if _, _, err := receiptlog.OpenCosigned(m.signed(t, 0, 1), key); !errors.Is(err, receiptlog.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
