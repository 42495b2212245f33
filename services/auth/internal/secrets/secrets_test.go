package secrets_test

import (
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/secrets"
)

func TestIs_AcceptsOneSpelling(t *testing.T) {
	s := secrets.New()
	if !secrets.Is(s) || secrets.New() == s {
		t.Errorf("%q is no secret, or not random", s)
	}
	for _, other := range []string{"", s[1:], s + "A", s + "=", s[:20] + "\n" + s[20:], s[:42] + "/", strings.Repeat("A", 42) + "B"} {
		if secrets.Is(other) {
			t.Errorf("%q is taken for a secret", other)
		}
	}
}

func TestHash_IsSHA256(t *testing.T) {
	if got := secrets.Hash("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(got)
	}
}
