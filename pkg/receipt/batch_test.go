package receipt_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

func TestAnswers_OfABatchKeepTheirBytes(t *testing.T) {
	all := [][]byte{
		[]byte(`{"receipt":{"a":1},"signature":{}}`), []byte(`{"receipt":{"a":"},{"},"signature":{"x": 2 }}`), []byte(`{}`),
	}
	for n := 1; n <= len(all); n++ {
		got, err := receipt.SplitAnswers(receipt.JoinAnswers(all[:n]))
		if err != nil || !slices.EqualFunc(got, all[:n], slices.Equal) {
			t.Errorf("%d: %q, %v", n, got, err)
		}
	}
	alone, err := receipt.SplitAnswers(all[0])
	if err != nil || len(alone) != 1 || string(alone[0]) != string(all[0]) {
		t.Errorf("alone: %q, %v", alone, err)
	}
	for _, broken := range []string{`{"answers":[]}`, `{"answers":{}}`, `{"answers":[{}]`, `{"answers":[{},]}`, `{"answers":null}`} {
		if got, err := receipt.SplitAnswers([]byte(broken)); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%s: %q, %v", broken, got, err)
		}
	}
}

// Of a batch that two programs could read differently none is verified, for another may take the other answer.
func TestAnswers_ThatTwoProgramsReadDifferentlyAreRefused(t *testing.T) {
	for _, ambiguous := range []string{
		`{"answers":[{"forged":1}],"answers":[{"genuine":1}]}`,
		`{"answers":[{"forged":1,"forged":2}]}`, `{"answers":["\ud800"]}`, `{"answers":[{}]} {"answers":[{}]}`,
		`{"answers":[{"genuine":1}],"Answers":[{"forged":1}]}`, `{"answers":[{"genuine":1}],"anſwers":[{"forged":1}]}`,
	} {
		if got, err := receipt.SplitAnswers([]byte(ambiguous)); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%s: %q, %v", ambiguous, got, err)
		}
	}
	got, err := receipt.SplitAnswers([]byte(`{"answers":[{"first":1}],"more":[{"second":1}]}`))
	if err != nil || len(got) != 1 || string(got[0]) != `{"first":1}` {
		t.Errorf("%q, %v", got, err)
	}
}
