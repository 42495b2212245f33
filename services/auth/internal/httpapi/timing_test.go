package httpapi_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// kind is one of a login that fails.
type kind struct{ name, username, password string }

var kinds = []kind{
	{"a wrong password", "anna", "wrong"},
	{"an unknown name", "nobody", "wrong"},
	{"a name that cannot exist", "no body 😀", "wrong"},
	{"a wrong password over 72 bytes", "anna", strings.Repeat("wrong", 100)},
	{"an unknown name and over 72 bytes", "nobody", strings.Repeat("wrong", 100)},
	{"a wrong password with NUL", "anna", "wrong\x00"},
}

// umlautKinds take two comparisons each.
var umlautKinds = []kind{
	{"a wrong password with umlauts", "anna", nfc},
	{"an unknown name and umlauts", "nobody", nfc},
}

// timingCost makes the password most of a login.
const timingCost = 9

// timingSamples is how many logins of each kind are compared.
const timingSamples = 15

// TestTiming_AFailedLoginTakesAsLongWhateverIsWrong makes logins of each kind in rotation
// and compares each kind's times with the first one's by the rank sum of Mann
// and Whitney, which other work on the machine does not bend. A kind differs
// when that is no accident (z over 3.3: once in a thousand) and its median is off
// by a tenth. What differs is measured again: less work would show every time.
func TestTiming_AFailedLoginTakesAsLongWhateverIsWrong(t *testing.T) {
	h := newFixture(t, func(s *settings) { s.attempts, s.hasher = 10000, password.Options{Cost: timingCost} })
	for _, kinds := range [][]kind{kinds, umlautKinds} {
		var differing []string
		for range 3 {
			if differing = compare(h, kinds); len(differing) == 0 {
				break
			}
		}
		if len(differing) > 0 {
			t.Error(strings.Join(differing, "\n"))
		}
	}
}

// compare returns the kinds that take another time than the first.
func compare(h *fixture, kinds []kind) (differing []string) {
	times := make([][]time.Duration, len(kinds))
	for range timingSamples {
		for i, kind := range kinds {
			b := h.fastBrowser()
			started := time.Now()
			b.login(kind.username, kind.password).want(http.StatusUnauthorized)
			times[i] = append(times[i], time.Since(started))
		}
	}
	for i, kind := range kinds[1:] {
		z := rankSum(times[0], times[i+1])
		first, this := median(times[0]), median(times[i+1])
		if math.Abs(z) > 3.3 && math.Abs(float64(this)/float64(first)-1) > 0.1 {
			differing = append(differing, fmt.Sprintf("%s takes %s, %s %s (z = %.1f)", kind.name, this, kinds[0].name, first, z))
		}
	}
	return differing
}

// rankSum is the z of the test of Mann and Whitney: how many standard deviations
// the number of pairs in which b is slower is away from a half.
func rankSum(a, b []time.Duration) float64 {
	slower := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case y > x:
				slower++
			case y == x:
				slower += 0.5
			}
		}
	}
	n, m := float64(len(a)), float64(len(b))
	return (slower - n*m/2) / math.Sqrt(n*m*(n+m+1)/12)
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

func TestTiming_TestFindsLessWork(t *testing.T) {
	var a, b []time.Duration
	for i := range timingSamples {
		a = append(a, time.Duration(100+i%5))
		b = append(b, time.Duration(80+i%5))
	}
	if z := rankSum(a, b); z > -3.3 {
		t.Errorf("z is %.1f", z)
	}
	if z := rankSum(a, a); z != 0 {
		t.Errorf("z is %.1f", z)
	}
}
