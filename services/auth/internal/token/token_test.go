package token_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/token"
)

func TestToken_HasItsForm(t *testing.T) {
	a, b := token.New(), token.New()
	if a == b || !token.Is(a) || len(a) != 47 || token.Shown(a) != a[:8] || secrets.Hash(a) == secrets.Hash(b) || len(secrets.Hash(a)) != 64 {
		t.Errorf("got %q and %q", a, b)
	}
	for _, s := range []string{"", "pft_", a[4:], a + "A", a[:46], "PFT_" + a[4:], " " + a[1:], a[:46] + "=", a[:46] + "+", "pft_" + strings.Repeat("A", 42) + "B", "pft_" + strings.Repeat("A", 41) + "\nA", "pft_" + strings.Repeat("A", 41) + "\rA"} {
		if token.Is(s) {
			t.Errorf("%q has the form of a token", s)
		}
	}
}

func TestToken_IsValidUntilItExpiresOrIsRevoked(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		token token.Token
		want  bool
	}{
		"for ever":             {token.Token{}, true},
		"until later":          {token.Token{ExpiresAt: now.Add(time.Second)}, true},
		"until now":            {token.Token{ExpiresAt: now}, false},
		"revoked":              {token.Token{RevokedAt: now}, false},
		"revoked before later": {token.Token{ExpiresAt: now.Add(time.Hour), RevokedAt: now}, false},
	} {
		if got := c.token.Valid(now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
