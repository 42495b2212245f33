package session

import (
	"testing"
	"time"
)

func FuzzParseToken(f *testing.F) {
	f.Add(token{userID: 42, id: newID(), signedAt: time.Unix(1_770_000_000, 0)}.String())
	for _, seed := range []string{"", "..", "1.2.3", "42." + newID() + ".-5", "9223372036854775808." + newID() + ".1"} {
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
