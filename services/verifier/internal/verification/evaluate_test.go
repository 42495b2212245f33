package verification_test

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/verification"
)

// call is a proven transaction in block 100 of a chain at 111: 12 confirmations.
func call() chain.Snapshot {
	hash, _ := chain.ParseHash(someHash)
	from, _ := chain.ParseAddress(someAddress)
	to := chain.Address{19: 1}
	return chain.Snapshot{
		Transaction: chain.Transaction{
			Hash: hash, Type: 2, From: from, SenderMethod: chain.SenderRecovered, To: &to,
			Selector: &chain.Selector{0x18, 0xcb, 0xaf, 0xe5}, Value: big.NewInt(7),
		},
		Block:   chain.Block{Number: 100},
		Outcome: chain.Outcome{Status: chain.StatusSuccess},
	}
}

// verify judges a request against a snapshot.
func verify(t *testing.T, s chain.Snapshot, body string) (verification.Evidence, error) {
	t.Helper()
	s.Chain = chain.Identity{Name: "base", ID: 8453}
	s.Heads = chain.Heads{Latest: 111, Finalized: 100, BlockTime: 2 * time.Second}
	request, err := verification.ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return verification.Judged(request, s)
}

const recipient = "0x0000000000000000000000000000000000000001"

func TestEvaluate_ExpectationsThatHold(t *testing.T) {
	for name, body := range map[string]string{
		"none":                          ``,
		"all":                           `"status":"success","from":"` + someAddress + `","to":"` + recipient + `","selector":"0x18CBAFE5","minConfirmations":12`,
		"sender in upper case":          `"from":"0xF9868B3960348194371B8CA4FE87CA7DE95E40B6"`,
		"exactly as many confirmations": `"minConfirmations":12`,
	} {
		if _, err := verify(t, call(), expecting(body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEvaluate_ARevertIsAValidOutcome(t *testing.T) {
	reverted := call()
	reverted.Outcome.Status = chain.StatusReverted
	evidence, err := verify(t, reverted, expecting(`"status":"reverted"`))
	if err != nil || *evidence.Receipt.Outcome.Status != "reverted" {
		t.Errorf("%+v, %v", evidence.Receipt.Outcome, err)
	}
	_, err = verify(t, reverted, expecting(`"status":"success"`))
	wantMismatch(t, err, verification.ErrExpectationMismatch, []verification.Check{
		{Name: "status", Result: "fail", Expected: "success", Found: "reverted"},
	})
}

func wantMismatch(t *testing.T, err error, fault *chain.Fault, checks []verification.Check) {
	t.Helper()
	var mismatch *verification.MismatchError
	if !errors.As(err, &mismatch) || !errors.Is(err, fault) {
		t.Fatalf("got %v, want %s", err, fault.Code)
	}
	if diff := cmp.Diff(checks, mismatch.Checks); diff != "" {
		t.Error(diff)
	}
}

func TestEvaluate_JudgesAllExpectationsInOrder(t *testing.T) {
	_, err := verify(t, call(), expecting(`"minConfirmations":13,"selector":"0x00000000","to":"`+someAddress+
		`","from":"`+someAddress+`","status":"reverted"`))
	wantMismatch(t, err, verification.ErrExpectationMismatch, []verification.Check{
		{Name: "status", Result: "fail", Expected: "reverted", Found: "success"},
		{Name: "from", Result: "pass", Expected: someAddress, Found: someAddress},
		{Name: "to", Result: "fail", Expected: someAddress, Found: recipient},
		{Name: "selector", Result: "fail", Expected: "0x00000000", Found: "0x18cbafe5"},
		{Name: "minConfirmations", Result: "fail", Expected: 13, Found: uint64(12)},
	})
	if _, ok := chain.RetryAfter(err); ok {
		t.Error("a mismatch does not mend with time")
	}
}

func TestEvaluate_OneThatDoesNotHoldIsAMismatch(t *testing.T) {
	for _, body := range []string{
		`"status":"reverted"`, `"from":"` + recipient + `"`, `"to":"` + someAddress + `"`, `"selector":"0x00000000"`,
	} {
		_, err := verify(t, call(), expecting(body))
		if !errors.Is(err, verification.ErrExpectationMismatch) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestEvaluate_ACreationHasNoRecipientAndSelector(t *testing.T) {
	creation := call()
	creation.Transaction.To, creation.Transaction.Selector = nil, nil
	creation.Transaction.ContractAddress = &chain.Address{19: 1}
	_, err := verify(t, creation, expecting(`"to":"`+recipient+`","selector":"0x00000000"`))
	wantMismatch(t, err, verification.ErrExpectationMismatch, []verification.Check{
		{Name: "to", Result: "fail", Expected: recipient},
		{Name: "selector", Result: "fail", Expected: "0x00000000"},
	})
	_, err = verify(t, creation, expecting(`"to":"0x0000000000000000000000000000000000000000"`))
	if !errors.Is(err, verification.ErrExpectationMismatch) {
		t.Errorf("the zero address counts as the recipient of a creation: %v", err)
	}
}

func TestEvaluate_TooFewConfirmationsSayWhenToRetry(t *testing.T) {
	_, err := verify(t, call(), expecting(`"minConfirmations":42,"status":"success"`))
	wantMismatch(t, err, verification.ErrInsufficientConfirmations, []verification.Check{
		{Name: "status", Result: "pass", Expected: "success", Found: "success"},
		{Name: "minConfirmations", Result: "fail", Expected: 42, Found: uint64(12)},
	})
	if seconds, ok := chain.RetryAfter(err); !ok || seconds != 60 { // 30 blocks of 2 s
		t.Errorf("retry after %d s, %v", seconds, ok)
	}
	if _, err := verify(t, call(), expecting(`"minConfirmations":12`)); err != nil {
		t.Errorf("as many as there are: %v", err)
	}
	if _, err := verify(t, call(), expecting(`"minConfirmations":13`)); err == nil {
		t.Error("one more than there are holds")
	}
}

func TestEvaluate_BeforeByzantiumThereIsNoStatus(t *testing.T) {
	old := call()
	old.Outcome.Status = chain.StatusUnknown
	evidence, err := verify(t, old, expecting(``))
	if err != nil || evidence.Receipt.Outcome.Status != nil {
		t.Errorf("without an expectation: %+v, %v", evidence.Receipt.Outcome, err)
	}
	for _, status := range []string{"success", "reverted"} {
		_, err = verify(t, old, expecting(`"status":"`+status+`"`))
		wantMismatch(t, err, verification.ErrStatusUnavailable, []verification.Check{
			{Name: "status", Result: "fail", Expected: status},
		})
	}
	_, err = verify(t, old, expecting(`"status":"success","minConfirmations":13`))
	if !errors.Is(err, verification.ErrStatusUnavailable) {
		t.Errorf("with too few confirmations too: %v", err)
	}
	_, err = verify(t, old, expecting(`"status":"success","from":"`+recipient+`"`))
	if !errors.Is(err, verification.ErrExpectationMismatch) {
		t.Errorf("with another mismatch: %v", err)
	}
}

func TestEvaluate_PassesOnTheChainsReasons(t *testing.T) {
	for _, fault := range chain.Faults() {
		reader := newReader(chain.Identity{Name: "base", ID: 8453}, chain.Heads{})
		hash, _ := chain.ParseHash(someHash)
		reader.Fail(hash, chain.WithRetryAfter(fault, 3*time.Second))
		request, err := verification.ParseRequest([]byte(expecting("")))
		if err != nil {
			t.Fatal(err)
		}
		_, err = verification.Verifier{Reader: reader}.Verify(t.Context(), request)
		var got *chain.Fault
		if seconds, _ := chain.RetryAfter(err); !errors.As(err, &got) || got != fault || seconds != 3 {
			t.Errorf("%s: got %v", fault.Code, err)
		}
	}
}
