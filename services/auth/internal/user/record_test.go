package user_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/user"
)

func TestRecord_IDIsAWholeNumberOrNone(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1": 1, "42": 42, "4503599627370496": user.MaxID} {
		if got, err := user.ParseID(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "+1", "1.0", "1e3", " 1", "0x10", "4503599627370497", "9223372036854775808", "one"} {
		if got, err := user.ParseID(text); !errors.Is(err, user.ErrID) {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
}

func TestRecord_TimeIsReadInTheFormsOfPrograms(t *testing.T) {
	want := time.Date(2024, 2, 29, 12, 30, 15, 0, time.UTC)
	for _, text := range []string{
		"2024-02-29T12:30:15Z", "2024-02-29T12:30:15.999Z", "2024-02-29T13:30:15+01:00", "2024-02-29 12:30:15", "2024-02-29 12:30:15.5",
		"1709209815", "1709209815000", "1709209815999", " 2024-02-29 12:30:15\n",
	} {
		if got, err := user.ParseCreatedAt(text); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
	if got, err := user.ParseCreatedAt(""); err != nil || !got.IsZero() {
		t.Errorf("none: got %s, %v", got, err)
	}
	for _, text := range []string{"yesterday", "2024-02-30 12:30:15", "29.02.2024", "2024-02-29", "0", "-5", "1e9", "100000000000000", "99999999999999999999"} {
		if got, err := user.ParseCreatedAt(text); !errors.Is(err, user.ErrCreatedAt) {
			t.Errorf("%q: got %s, %v", text, got, err)
		}
	}
}

func FuzzParseCreatedAt(f *testing.F) {
	for _, seed := range []string{"2024-02-29T12:30:15Z", "2024-02-29 12:30:15", "1709209815000", "", "-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := user.ParseCreatedAt(text)
		if err != nil || got.IsZero() {
			return
		}
		if got.Nanosecond() != 0 || got.Location() != time.UTC {
			t.Errorf("%q returned %v", text, got)
		}
		if again, err := user.ParseCreatedAt(got.Format(time.RFC3339)); err != nil || !again.Equal(got) {
			t.Errorf("%q returned %v, and that %v, %v", text, got, again, err)
		}
	})
}
