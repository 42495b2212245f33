package session

import (
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

// What is signed is parsed all the same: an earlier release may have signed something else.
func TestParseToken_AcceptsItsOwnSpellingOnly(t *testing.T) {
	id, key := secrets.New(), strings.Repeat("0a", 32)
	for _, text := range []string{"", ".", "42." + id, "0." + id + ".1", "-1." + id + ".1", "042." + id + ".1", "42.." + "1", "42." + id + ".1.", "42." + id + ".x"} {
		if parsed, ok := parseToken(text); ok {
			t.Errorf("%q is read as %+v", text, parsed)
		}
	}
	good := "42." + key + "." + id + ".1"
	if _, ok := parseAppToken(good); !ok {
		t.Fatalf("%q is not read", good)
	}
	for _, text := range []string{
		"", "42." + key + "." + id, good + ".", "0." + good[3:], "-42." + good[3:], "42." + strings.ToUpper(key) + "." + id + ".1",
		"42." + key[2:] + "." + id + ".1", "42." + key + "." + id[1:] + ".1", "42." + key + "." + id + ".01",
	} {
		if parsed, ok := parseAppToken(text); ok {
			t.Errorf("%q is read as %+v", text, parsed)
		}
	}
}

func TestBegunAt_ReadsStatesOnly(t *testing.T) {
	hash := secrets.New()
	if at, ok := BegunAt(hash + ".1770000000"); !ok || at.Unix() != 1_770_000_000 {
		t.Errorf("%v, %v", at, ok)
	}
	for _, state := range []string{"", ".", hash, hash + ".", hash + ".01", hash + ".x", ".1770000000", "short.1770000000"} {
		if at, ok := BegunAt(state); ok {
			t.Errorf("%q is read as %v", state, at)
		}
	}
}

func TestSecond_IsMoreThanAPassword(t *testing.T) {
	for factor, want := range map[Factor]bool{"": false, Password: false, PasswordWithTOTP: true, PasswordWithRecovery: true, PasswordWithPasskey: true, Passkey: true} {
		if got := factor.Second(); got != want {
			t.Errorf("%q: %v", factor, got)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(token{userID: 42, id: secrets.New(), signedAt: time.Unix(1_770_000_000, 0)}.String())
	for _, seed := range []string{"", "..", "1.2.3", "42." + secrets.New() + ".-5", "9223372036854775808." + secrets.New() + ".1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, ok := parseToken(text)
		if !ok {
			return
		}
		if parsed.String() != text || parsed.userID <= 0 || len(parsed.ref().Key) != 64 {
			t.Errorf("%q was parsed as %+v", text, parsed)
		}
	})
}
