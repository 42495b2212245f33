package sign_test

import (
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/oidc/sign"
)

// BenchmarkSign is what a token costs, of which the signature itself is nearly all.
func BenchmarkSign(b *testing.B) {
	r, err := sign.New(sign.Options{DataKey: make([]byte, 32), Observe: func(time.Duration) {}})
	if err != nil {
		b.Fatal(err)
	}
	for _, alg := range []oidc.Alg{oidc.RS256, oidc.ES256} {
		k, err := r.Generate(alg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(string(alg), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Sign(b.Context(), k, oidc.TypeID, map[string]any{"iss": "https://home.example.org/pforte", "sub": "x"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
