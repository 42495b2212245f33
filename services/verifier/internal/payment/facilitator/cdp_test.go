package facilitator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
)

const keyID = "organizations/1/apiKeys/2"

func ed25519Secret(t *testing.T) (ed25519.PublicKey, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, base64.StdEncoding.EncodeToString(private)
}

func ecSecret(t *testing.T, curve elliptic.Curve, pkcs8 bool) (*ecdsa.PublicKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	kind, marshal := "EC PRIVATE KEY", func() ([]byte, error) { return x509.MarshalECPrivateKey(key) }
	if pkcs8 {
		kind, marshal = "PRIVATE KEY", func() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(key) }
	}
	der, err := marshal()
	if err != nil {
		t.Fatal(err)
	}
	return &key.PublicKey, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// check takes a token apart by the rules of RFC 7515 and 8037, without the
// library that made it.
func check(t *testing.T, token string, valid func(signed, signature []byte) bool) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("the token has %d parts", len(parts))
	}
	decoded := make([][]byte, 3)
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			t.Fatal(err)
		}
	}
	if !valid([]byte(parts[0]+"."+parts[1]), decoded[2]) {
		t.Error("the signature does not hold")
	}
	for i, into := range []*map[string]any{&header, &claims} {
		if err := json.Unmarshal(decoded[i], into); err != nil {
			t.Fatal(err)
		}
	}
	return header, claims
}

func validES256(public *ecdsa.PublicKey) func(signed, signature []byte) bool {
	return func(signed, signature []byte) bool {
		digest := sha256.Sum256(signed)
		return len(signature) == 64 && ecdsa.Verify(public, digest[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
}

func TestCDP_EachCallCarriesATokenOfItsOwn(t *testing.T) {
	public, secret := ed25519Secret(t)
	ec, ecPEM := ecSecret(t, elliptic.P256(), false)
	ec8, ec8PEM := ecSecret(t, elliptic.P256(), true)
	for name, c := range map[string]struct {
		secret, algorithm string
		valid             func(signed, signature []byte) bool
	}{
		"Ed25519":                  {secret, "EdDSA", func(signed, signature []byte) bool { return ed25519.Verify(public, signed, signature) }},
		"P-256 as SEC 1":           {ecPEM, "ES256", validES256(ec)},
		"P-256 as PKCS 8":          {ec8PEM, "ES256", validES256(ec8)},
		"P-256 with escaped lines": {strings.ReplaceAll(ecPEM, "\n", `\n`), "ES256", validES256(ec)},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := facilitator.ParseCDPKey(keyID, c.secret)
			if err != nil {
				t.Fatal(err)
			}
			nonces := map[any]bool{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header, claims := check(t, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), c.valid)
				nonces[header["nonce"]] = true
				delete(header, "nonce")
				if diff := cmp.Diff(map[string]any{"alg": c.algorithm, "kid": keyID, "typ": "JWT"}, header); diff != "" {
					t.Error(diff)
				}
				want := map[string]any{
					"sub": keyID, "iss": "cdp", "uris": []any{fmt.Sprintf("%s %s%s", r.Method, r.Host, r.URL.Path)},
					"iat": 1.8e9, "nbf": 1.8e9, "exp": 1.8e9 + 120,
				}
				if diff := cmp.Diff(want, claims); diff != "" {
					t.Error(diff)
				}
				_, _ = io.WriteString(w, `{"isValid":true,"success":true,"kinds":[]}`)
			}))
			t.Cleanup(server.Close)
			client, err := facilitator.New(facilitator.Options{URL: server.URL + "/platform/v2/x402", Token: key, Now: func() time.Time { return time.Unix(1.8e9, 0) }})
			if err != nil {
				t.Fatal(err)
			}
			_, err1 := client.Verify(context.Background(), nil)
			_, err2 := client.Settle(context.Background(), nil)
			_, err3 := client.Supported(context.Background())
			if err1 != nil || err2 != nil || err3 != nil || len(nonces) != 3 {
				t.Errorf("%v, %v, %v with %d nonces", err1, err2, err3, len(nonces))
			}
		})
	}
}

func TestCDP_ASecretThatIsNoneIsNeverQuoted(t *testing.T) {
	_, secret := ed25519Secret(t)
	_, other := ed25519Secret(t)
	_, p384 := ecSecret(t, elliptic.P384(), false)
	for name, s := range map[string]string{
		"nothing": "", "words": "hunter2 hunter2", "half": secret[:40], "two halves": secret[:44] + other[44:],
		"another curve": p384, "half a PEM": "-----BEGIN EC PRIVATE KEY-----\nhunter2",
	} {
		_, err := facilitator.ParseCDPKey(keyID, s)
		if err == nil || strings.Contains(err.Error(), "hunter2") || (len(s) > 40 && strings.Contains(err.Error(), s[:20])) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := facilitator.ParseCDPKey("", secret); err == nil {
		t.Error("a key without an id was taken")
	}
	key, err := facilitator.ParseCDPKey(keyID, secret)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %s %#v", key, key, key, key); strings.Contains(text, "private") || text != strings.Join([]string{keyID, keyID, keyID, keyID}, " ") {
		t.Errorf("printed %q", text)
	}
}
