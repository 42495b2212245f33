package sign_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/oidc/sign"
)

var (
	first  = []byte(strings.Repeat("1", 32))
	second = []byte(strings.Repeat("2", 32))
)

func open(t *testing.T, key, previous []byte) *sign.Keyring {
	t.Helper()
	r, err := sign.New(sign.Options{DataKey: key, Previous: previous, Observe: func(time.Duration) {}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func generate(t *testing.T, r *sign.Keyring, alg oidc.Alg) oidc.StoredKey {
	t.Helper()
	k, err := r.Generate(alg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func encode(v any) string {
	raw, _ := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func TestVerify_TakesOwnTokensOfOneTypeAlone(t *testing.T) {
	r := open(t, first, nil)
	rsa, ec, other := generate(t, r, oidc.RS256), generate(t, r, oidc.ES256), generate(t, r, oidc.ES256)
	keys := []oidc.StoredKey{rsa, ec}
	claims := map[string]any{"iss": "https://home.example.org/pforte", "aud": "web"}
	for _, k := range keys {
		token, err := r.Sign(t.Context(), k, oidc.TypeID, claims)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Verify(keys, oidc.TypeID, token)
		if err != nil || !strings.Contains(string(got), `"aud":"web"`) {
			t.Errorf("%s: %s %v", k.Alg, got, err)
		}
		parts := strings.Split(token, ".")
		mac := hmac.New(sha256.New, []byte(k.JWK))
		confused := encode(map[string]string{"alg": "HS256", "typ": "JWT", "kid": k.ID}) + "." + parts[1]
		_, _ = mac.Write([]byte(confused))
		logout, err := r.Sign(t.Context(), k, oidc.TypeLogout, claims)
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := r.Sign(t.Context(), other, oidc.TypeID, claims)
		if err != nil {
			t.Fatal(err)
		}
		alg := map[oidc.Alg]string{oidc.RS256: "ES256", oidc.ES256: "RS256"}[k.Alg]
		for what, bad := range map[string]string{
			"none":             encode(map[string]string{"alg": "none", "typ": "JWT", "kid": k.ID}) + "." + parts[1] + ".",
			"HS256":            confused + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
			"another alg":      encode(map[string]string{"alg": alg, "typ": "JWT", "kid": k.ID}) + "." + parts[1] + "." + parts[2],
			"no signature":     parts[0] + "." + parts[1] + ".",
			"a cut signature":  token[:len(token)-2],
			"other claims":     parts[0] + "." + encode(map[string]string{"aud": "x"}) + "." + parts[2],
			"a logout token":   logout,
			"of a foreign key": foreign,
			"empty":            "", "dots": "..", "long": strings.Repeat("a", 9000) + ".a.a", "JSON": `{"payload":"a"}`,
		} {
			if _, err := r.Verify(keys, oidc.TypeID, bad); !errors.Is(err, oidc.ErrToken) {
				t.Errorf("%s, %s: %v", k.Alg, what, err)
			}
		}
		if _, err := r.Verify(keys, oidc.TypeLogout, token); !errors.Is(err, oidc.ErrToken) {
			t.Errorf("%s: an ID token as a logout token: %v", k.Alg, err)
		}
	}
}

func TestKey_IsSealedForItsOwnIDByDataKey(t *testing.T) {
	r := open(t, first, nil)
	k, swapped := generate(t, r, oidc.ES256), generate(t, r, oidc.ES256)
	if strings.Contains(k.JWK, `"d"`) || !r.Opens(k) {
		t.Errorf("public key is %s", k.JWK)
	}
	swapped.Sealed = k.Sealed
	if r.Opens(swapped) {
		t.Error("one key's secret is another's")
	}
	if open(t, second, nil).Opens(k) {
		t.Error("opened by another DATA_KEY")
	}
	if _, err := open(t, nil, nil).Generate(oidc.RS256); !errors.Is(err, oidc.ErrNoDataKey) {
		t.Errorf("without DATA_KEY: %v", err)
	}
	after := open(t, second, first)
	resealed := after.Reseal([]oidc.StoredKey{k, swapped})
	if !after.Opens(k) || !open(t, second, nil).Opens(resealed[0]) || resealed[0].ID != k.ID {
		t.Error("not sealed again")
	}
	if string(resealed[1].Sealed) != string(swapped.Sealed) {
		t.Error("what cannot be opened was changed")
	}
}
