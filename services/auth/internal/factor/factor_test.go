package factor_test

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/factor"
)

// TestTOTP_HasTheVectorsOfRFC6238 checks appendix B, shortened to six digits.
func TestTOTP_HasTheVectorsOfRFC6238(t *testing.T) {
	secret := []byte("12345678901234567890")
	for at, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got := factor.Code(secret, factor.StepOf(time.Unix(at, 0))); got != want {
			t.Errorf("at %d: got %s, want %s", at, got, want)
		}
	}
}

func TestTOTP_ACodeHoldsAStepAroundItsTimeOnce(t *testing.T) {
	secret, now := factor.NewSecret(), time.Date(2026, 3, 1, 12, 0, 15, 0, time.UTC)
	at := factor.StepOf(now)
	for off := int64(-2); off <= 2; off++ {
		step, err := factor.MatchTOTP(secret, factor.Code(secret, at+off), 0, now)
		if inside := off >= -1 && off <= 1; inside && (err != nil || step != at+off) || !inside && !errors.Is(err, factor.ErrInvalidCode) {
			t.Errorf("%+d: got step %d, %v", off, step-at, err)
		}
	}
	if _, err := factor.MatchTOTP(secret, factor.Code(secret, at), at, now); !errors.Is(err, factor.ErrInvalidCode) {
		t.Errorf("a second time: %v", err)
	}
	// The server's clock was set back after a login: what was used then stays used.
	if _, err := factor.MatchTOTP(secret, factor.Code(secret, at-1), at, now); !errors.Is(err, factor.ErrInvalidCode) {
		t.Errorf("an earlier one: %v", err)
	}
	for _, wrong := range []string{"", "12345", "1234567", "abcdef"} {
		if _, err := factor.MatchTOTP(secret, wrong, 0, now); !errors.Is(err, factor.ErrInvalidCode) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestTOTP_FindsASkewUpToTenMinutes(t *testing.T) {
	secret, now := factor.NewSecret(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, off := range []time.Duration{-10 * time.Minute, -time.Minute, 5 * time.Minute, 10 * time.Minute} {
		if got, ok := factor.SkewOf(secret, factor.Code(secret, factor.StepOf(now.Add(off))), now); !ok || got != off {
			t.Errorf("%s: got %s, %t", off, got, ok)
		}
	}
	if got, ok := factor.SkewOf(secret, factor.Code(secret, factor.StepOf(now)+21), now); ok {
		t.Errorf("10.5 minutes: got %s", got)
	}
}

func TestTOTP_URIHasTheFormOfAuthenticatorApps(t *testing.T) {
	got := factor.URI("Zu Hause", "anna", []byte("12345678901234567890"))
	if want := "otpauth://totp/Zu%20Hause:anna?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Zu%20Hause"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// The first colon of the label ends the issuer.
	got = factor.URI("WG: Haus", "anna", []byte("12345678901234567890"))
	if want := "otpauth://totp/WG-%20Haus:anna?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=WG-%20Haus"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTOTP_ReadsSpacesAndHyphens(t *testing.T) {
	for typed, isTOTP := range map[string]bool{"123 456": true, "123-456": true, " 1234 56": true, "12345": false, "ABCD-EFGH": false, "12345６": false} {
		if got := factor.IsTOTP(factor.CleanCode(typed)); got != isTOTP {
			t.Errorf("%q: %t", typed, got)
		}
	}
}

func TestRecoveryCodes_AreTenOf80Bits(t *testing.T) {
	codes, hashes := factor.NewRecoveryCodes()
	form := regexp.MustCompile(`\A([0-9A-HJKMNP-TV-Z]{4}-){3}[0-9A-HJKMNP-TV-Z]{4}\z`)
	seen := map[string]bool{}
	for i, code := range codes {
		if !form.MatchString(code) || seen[code] {
			t.Errorf("got %s", code)
		}
		seen[code] = true
		typed := strings.NewReplacer("0", "o", "1", "l", "-", " ").Replace(strings.ToLower(code))
		if factor.RecoveryHash(typed) != hashes[i] || strings.Contains(hashes[i], code) {
			t.Errorf("%s typed as %s has another hash", code, typed)
		}
	}
	if len(codes) != 10 || len(slices.Compact(slices.Sorted(slices.Values(hashes)))) != 10 {
		t.Errorf("got %d codes", len(codes))
	}
}

func TestSeal_IsOpenedWithItsKeyForItsUser(t *testing.T) {
	one, two := strings.Repeat("01", 32), strings.Repeat("ab", 32)
	sealer := func(key, previous string) *factor.Sealer {
		s, err := factor.NewSealer(key, previous)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	secret := factor.NewSecret()
	sealed, err := sealer(one, "").Seal(42, secret)
	if err != nil || bytes.Contains(sealed, secret) {
		t.Fatalf("sealed %x, %v", sealed, err)
	}
	for name, c := range map[string]struct {
		sealer *factor.Sealer
		old    bool
	}{"the same key": {sealer(one, ""), false}, "a new key with the previous one": {sealer(two, one), true}} {
		if got, old, err := c.sealer.Open(42, sealed); err != nil || old != c.old || !bytes.Equal(got, secret) {
			t.Errorf("%s: %x, %t, %v", name, got, old, err)
		}
	}
	if _, _, err := sealer(two, "").Open(42, sealed); !errors.Is(err, factor.ErrSealed) {
		t.Errorf("another key: %v", err)
	}
	if _, _, err := sealer(one, "").Open(43, sealed); !errors.Is(err, factor.ErrSealed) {
		t.Errorf("another user: %v", err)
	}
	for _, damaged := range [][]byte{nil, sealed[:5], append(slices.Clone(sealed[:len(sealed)-1]), sealed[len(sealed)-1]^1)} {
		if _, _, err := sealer(one, "").Open(42, damaged); !errors.Is(err, factor.ErrSealed) {
			t.Errorf("%x: %v", damaged, err)
		}
	}
	if none, err := factor.NewSealer("", ""); err != nil || none != nil {
		t.Errorf("without a key: %v, %v", none, err)
	} else if _, err := none.Seal(42, secret); !errors.Is(err, factor.ErrNotConfigured) {
		t.Errorf("without a key: %v", err)
	}
	for _, wrong := range []string{"0", strings.Repeat("01", 31), strings.Repeat("zz", 32)} {
		if _, err := factor.NewSealer(wrong, ""); !errors.Is(err, factor.ErrKey) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
