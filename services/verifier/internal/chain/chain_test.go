package chain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

func TestHex_IsReadInEitherCase(t *testing.T) {
	lower := "0x" + strings.Repeat("ab", 32)
	for _, text := range []string{lower, "0x" + strings.Repeat("AB", 32), "0x" + strings.Repeat("aB", 32)} {
		h, err := chain.ParseHash(text)
		if err != nil || h.String() != lower {
			t.Errorf("%s: %v, %v", text, h, err)
		}
	}
	for _, text := range []string{"", "0x", lower[:65], lower + "0", "0X" + lower[2:], lower[2:], "0x" + strings.Repeat("g", 64)} {
		if _, err := chain.ParseHash(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	if a, err := chain.ParseAddress("0x" + strings.Repeat("0A", 20)); err != nil || a.String() != "0x"+strings.Repeat("0a", 20) {
		t.Error(a, err)
	}
	if s, err := chain.ParseSelector("0x18CBafe5"); err != nil || s.String() != "0x18cbafe5" {
		t.Error(s, err)
	}
}

func TestConfirmations_CountBothEnds(t *testing.T) {
	for _, c := range []struct{ latest, number, want uint64 }{{100, 100, 1}, {111, 100, 12}, {99, 100, 0}, {0, 0, 1}} {
		if got := (chain.Heads{Latest: c.latest}).Confirmations(c.number); got != c.want {
			t.Errorf("block %d, latest %d: %d, want %d", c.number, c.latest, got, c.want)
		}
	}
}

func TestWait_IsBetweenASecondAndAnHour(t *testing.T) {
	for _, c := range []struct {
		each   time.Duration
		blocks uint64
		want   time.Duration
	}{
		{2 * time.Second, 30, time.Minute},
		{250 * time.Millisecond, 1, time.Second},
		{0, 100, 5 * time.Second},
		{12 * time.Second, 100_000, time.Hour},
		{time.Second, 1 << 63, time.Hour},
	} {
		if got := (chain.Heads{BlockTime: c.each}).Wait(c.blocks); got != c.want {
			t.Errorf("%d blocks of %v: %v, want %v", c.blocks, c.each, got, c.want)
		}
	}
}

func TestFaults_AreDistinctThroughWrapping(t *testing.T) {
	codes := map[string]bool{}
	for _, fault := range chain.Faults() {
		if codes[fault.Code] || fault.Code == "" || fault.Text == "" {
			t.Errorf("%+v", fault)
		}
		codes[fault.Code] = true
		err := fmt.Errorf("outside: %w", chain.WithRetryAfter(fmt.Errorf("inside: %w", fault), 1500*time.Millisecond))
		var got *chain.Fault
		if !errors.Is(err, fault) || !errors.As(err, &got) || got != fault {
			t.Errorf("%s is lost", fault.Code)
		}
		if seconds, ok := chain.RetryAfter(err); !ok || seconds != 2 {
			t.Errorf("retry after %d s, %v", seconds, ok)
		}
	}
	if _, ok := chain.RetryAfter(chain.ErrQuorum); ok {
		t.Error("a time from nowhere")
	}
}
