package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// TestAFailedLoginTakesAsLongWhateverIsWrong compares the shortest of several
// logins of each kind, taken in turns: that is the work itself, without what a
// busy machine adds. Without the comparison for nobody an unknown name would be
// answered many times as fast, even at the low cost that the test takes.
func TestAFailedLoginTakesAsLongWhateverIsWrong(t *testing.T) {
	h := newHouse(t, func(s *settings) { s.attempts, s.hasher = 10000, password.Options{Cost: 6} })
	kinds := []struct{ name, username, password string }{
		{"a wrong password", "anna", "wrong"},
		{"an unknown name", "nobody", "wrong"},
		{"a name that nobody can have", "no body 😀", "wrong"},
		{"a wrong password over 72 bytes", "anna", strings.Repeat("wrong", 100)},
		{"an unknown name and over 72 bytes", "nobody", strings.Repeat("wrong", 100)},
		{"a wrong password with NUL", "anna", "wrong\x00"},
	}
	took := make([][]time.Duration, len(kinds))
	for range 15 {
		for i, kind := range kinds {
			b := h.hurry()
			started := time.Now()
			b.login(kind.username, kind.password).want(http.StatusUnauthorized)
			took[i] = append(took[i], time.Since(started))
		}
	}
	least := slices.Min(took[0])
	for i, kind := range kinds {
		if ratio := float64(slices.Min(took[i])) / float64(least); ratio < 0.5 || ratio > 2 {
			t.Errorf("%s takes %s, a wrong password %s", kind.name, slices.Min(took[i]), least)
		}
	}
}
