package retryafter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/retryafter"
)

func TestRead_IsBoundedAndKnowsSecondsAndDates(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for text, want := range map[string]time.Duration{
		"7": 7 * time.Second, "0": time.Second, "61": time.Minute, "4294967295": time.Minute,
		now.Add(9 * time.Second).UTC().Format(http.TimeFormat): 9 * time.Second,
		now.Add(-time.Hour).UTC().Format(http.TimeFormat):      time.Second,
		"Fri, 31 Dec 9999 23:59:59 GMT":                        time.Minute,
		"":                                                     5 * time.Second, "-1": 5 * time.Second, "soon": 5 * time.Second, "99999999999999999999": 5 * time.Second,
	} {
		if got := retryafter.Read(http.Header{"Retry-After": {text}}, now, 5*time.Second, time.Minute); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := retryafter.Read(nil, now, 0, time.Minute); got != 0 {
		t.Errorf("without a header: %v", got)
	}
}
