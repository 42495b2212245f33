package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// kinds of a login that fails.
var kinds = []struct{ name, username, password string }{
	{"a wrong password", "anna", "wrong"},
	{"an unknown name", "nobody", "wrong"},
	{"a name that nobody can have", "no body 😀", "wrong"},
	{"a wrong password over 72 bytes", "anna", strings.Repeat("wrong", 100)},
	{"an unknown name and over 72 bytes", "nobody", strings.Repeat("wrong", 100)},
	{"a wrong password with NUL", "anna", "wrong\x00"},
}

// TestAFailedLoginTakesAsLongWhateverIsWrong compares the shortest of several
// logins of each kind, taken in turns, which other work on the machine disturbs
// least, and measures again when they differ: less work would show every time.
// Without the comparison for nobody an unknown name would be answered many times
// as fast, even at the low cost that the test takes.
func TestAFailedLoginTakesAsLongWhateverIsWrong(t *testing.T) {
	h := newHouse(t, func(s *settings) { s.attempts, s.hasher = 10000, password.Options{Cost: 6} })
	var differing []string
	for range 5 {
		if differing = compare(h); len(differing) == 0 {
			return
		}
	}
	t.Error(strings.Join(differing, "\n"))
}

// compare tells which kinds take a third more or a quarter less than the first.
func compare(h *house) (differing []string) {
	least := make([]time.Duration, len(kinds))
	for range 9 {
		for i, kind := range kinds {
			b := h.hurry()
			started := time.Now()
			b.login(kind.username, kind.password).want(http.StatusUnauthorized)
			if took := time.Since(started); least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	for i, kind := range kinds {
		if least[i] < least[0]*3/4 || least[i] > least[0]*4/3 {
			differing = append(differing, fmt.Sprintf("%s takes %s, %s %s", kind.name, least[i], kinds[0].name, least[0]))
		}
	}
	return differing
}
