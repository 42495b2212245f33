package verification

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	openapi "github.com/pforte/pforte/services/verifier/api"
)

// sized is a question whose answer has that receipt, and a header of so many bytes in JSON.
type sized struct {
	size int
	receipt.Receipt
}

func (s sized) Canonical() []byte { return []byte(strconv.Itoa(s.size)) }

func (s sized) verify(context.Context, Verifier) (Evidence, error) {
	return Evidence{Receipt: s.Receipt, Proof: receipt.Proof{HeaderRLP: make([]byte, s.size/2)}}, nil
}

func TestSigned_NothingThatCannotBeChecked(t *testing.T) {
	key, err := receipt.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	var sample struct {
		Answer struct{ Receipt receipt.Receipt }
	}
	if err := json.Unmarshal(openapi.Sample, &sample); err != nil {
		t.Fatal(err)
	}
	r := NewReceipts(key, 64<<20, func(bool) {}, func(int) {})
	asked := func(sizes ...int) (all []Asked) {
		for _, n := range sizes {
			all = append(all, Asked{Question: sized{n, sample.Answer.Receipt}})
		}
		return all
	}
	const half, most = receipt.MaxSize / 2, receipt.MaxSize - 4<<10
	for name, c := range map[string]struct {
		asked []Asked
		err   error
	}{
		"the largest":       {asked(most), nil},
		"too large":         {asked(receipt.MaxSize), ErrTooLarge},
		"two":               {asked(half-4<<10, half-5<<10), nil},
		"two too large":     {asked(half, half+1<<10), ErrTooLarge},
		"one is too large":  {asked(100, receipt.MaxSize+2), ErrTooLarge},
		"too large in many": {asked(most, 6<<10, 7<<10, 8<<10), ErrTooLarge},
	} {
		answers, err := r.SignedAll(t.Context(), c.asked, 2)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && len(receipt.JoinAnswers(answers)) > receipt.MaxSize {
			t.Errorf("%s: the answer is too large", name)
		}
	}
	if answer, err := r.Signed(t.Context(), "", Verifier{}, sized{receipt.MaxSize, sample.Answer.Receipt}); answer != nil || !errors.Is(err, ErrTooLarge) {
		t.Errorf("alone: %d bytes, %v", len(answer), err)
	}
}

func TestCache_KeepsTheLatestUsedReceipts(t *testing.T) {
	a := NewReceipts(nil, 10*size("0", make([]byte, 1000)), nil, nil)
	answer := func(i int) []byte { return bytes.Repeat([]byte{byte('0' + i)}, 1000) }
	for i := range 10 {
		a.put(fmt.Sprint(i), answer(i))
	}
	a.get("0")
	a.put("x", answer(10))
	a.put("huge", make([]byte, 1<<20))
	for key, want := range map[string]bool{"0": true, "1": false, "2": true, "9": true, "x": true, "huge": false} {
		if got, ok := a.get(key); ok != want || (ok && key == "0" && !bytes.Equal(got, answer(0))) {
			t.Errorf("%s: kept %v, want %v", key, ok, want)
		}
	}
	if a.used > a.limit || a.answers.Len() != 10 {
		t.Errorf("%d of %d bytes, %d entries", a.used, a.limit, a.answers.Len())
	}
}

func TestCache_IsSharedSafely(t *testing.T) {
	a := NewReceipts(nil, 50_000, nil, nil)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			key := fmt.Sprint(i % 30)
			a.put(key, []byte(key))
			if got, ok := a.get(key); ok && string(got) != key {
				t.Errorf("%s gave %s", key, got)
			}
		})
	}
	all.Wait()
}
