package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/session"
)

const offline = "openid offline_access"

// startWith is a start of the program with another DATA_KEY.
func (h *signingIn) startWith(key, previous string) {
	h.t.Helper()
	h.build(settings{
		secret: secret, name: "svc", attempts: 5, hasher: cheap, publicURL: origin, pages: true, dataKey: key, dataKeyPrevious: previous,
	})
}

// published returns the ids of the published keys.
func (h *signingIn) published() (ids []string) {
	h.t.Helper()
	var set struct{ Keys []struct{ Kid string } }
	got := h.browser().at("GET", "/pforte/oidc/jwks", "").want(http.StatusOK)
	if err := json.Unmarshal(got.body, &set); err != nil {
		h.t.Fatal(err)
	}
	for _, k := range set.Keys {
		ids = append(ids, k.Kid)
	}
	return ids
}

// signs returns the id of the key that signs a login at grafana now.
func (h *signingIn) signs() string {
	h.t.Helper()
	got := h.exchange(h.otto().code())
	if got.status != http.StatusOK {
		h.t.Fatalf("%d %s", got.status, got.body)
	}
	head, _ := payload(h.t, got.ID)
	kid, _ := head["kid"].(string)
	return kid
}

// TestKeys_StayPublishedWithoutClients: the logouts of the last one are signed by them, and still on their way.
func TestKeys_StayPublishedWithoutClients(t *testing.T) {
	h := newSigningIn(t)
	before := h.published()
	h.ok(h.oidc.Remove(t.Context(), session.Session{}, "grafana"))
	if after := h.published(); !slices.Equal(after, before) {
		t.Errorf("published were %q, are %q", before, after)
	}
	if got := h.browser().at("GET", "/pforte/.well-known/openid-configuration", ""); got.status != http.StatusNotFound {
		t.Errorf("discovery: %d", got.status)
	}
}

var one, other = strings.Repeat("0123456789abcdef", 4), strings.Repeat("fedcba9876543210", 4)

// TestDataKey_OfAnotherReplacesKeysAndNothingElse: who loses DATA_KEY has everybody log in once. The keys that it sealed
// stay, publish what they have signed, and sign again where it is found.
func TestDataKey_OfAnotherReplacesKeysAndNothingElse(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		granted := h.exchange(h.otto().code("scope", offline))
		if granted.status != http.StatusOK || granted.Refresh == "" {
			t.Fatalf("%d %s", granted.status, granted.body)
		}
		before, sealed, signed := h.published(), must(h.database.Keys.Keys(t.Context()))(t), h.signs()

		h.startWith(other, "")
		log := h.log.String()
		replaced := h.signs()
		if replaced == signed || !strings.Contains(h.log.String()[len(log):], "was DATA_KEY lost?") {
			t.Errorf("%s signed and %s signs, logged %s", signed, replaced, h.log.String()[len(log):])
		}
		if now := h.published(); len(now) != 4 || !slices.Contains(now, before[0]) || !slices.Contains(now, before[1]) {
			t.Errorf("published were %q, are %q", before, now)
		}
		if _, err := h.oidc.VerifyHint(t.Context(), granted.ID); err != nil {
			t.Errorf("an ID token of before: %v", err)
		}
		h.refresh(granted.Refresh).is(t, "a refresh token of before", http.StatusBadRequest, "invalid_grant")
		if _, status := h.userInfo(granted.Access); status != http.StatusOK { // it is in Redis, and no key is in it
			t.Errorf("an access token of before: %d", status)
		}
		for _, k := range must(h.database.Keys.Keys(t.Context()))(t) {
			if i := slices.IndexFunc(sealed, func(s oidc.StoredKey) bool { return s.ID == k.ID }); i >= 0 && string(sealed[i].Sealed) != string(k.Sealed) {
				t.Errorf("%s is sealed otherwise", k.ID)
			}
		}

		h.startWith(one, "") // it is found
		if got := h.signs(); got != signed {
			t.Errorf("%s signs, before the loss %s", got, signed)
		}
		if got := h.refresh(granted.Refresh); got.status != http.StatusOK {
			t.Errorf("the refresh token: %d %s", got.status, got.body)
		}
		if now := h.published(); len(now) != 4 { // what was signed meanwhile is verified
			t.Errorf("published are %q", now)
		}
		for _, secret := range []string{one, other, h.secret} {
			if strings.Contains(h.log.String(), secret) {
				t.Error("a secret is in the log")
			}
		}
	})
}

// TestDataKey_OfEachReplicaMakesNoMoreKeys: a replica with another one changes what signs, not how much is stored.
func TestDataKey_OfEachReplicaMakesNoMoreKeys(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		for range 10 {
			for _, key := range []string{one, other} {
				h.startWith(key, "")
				h.clock.Advance(6 * time.Second)
				h.signs()
			}
		}
		if keys := must(h.database.Keys.Keys(t.Context()))(t); len(keys) != 4 {
			t.Errorf("%d keys", len(keys))
		}
	})
}

func TestDataKey_IsReplacedWithoutALogin(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		granted, signed := h.exchange(h.otto().code("scope", offline)), h.signs()
		h.startWith(other, one)
		if err := h.oidc.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := h.refresh(granted.Refresh); got.status != http.StatusOK || h.signs() != signed {
			t.Errorf("%d %s, %s signed", got.status, got.body, signed)
		}
		h.startWith(other, "")
		if got := h.signs(); got != signed {
			t.Errorf("%s signs, before %s", got, signed)
		}
	})
}

// TestDataKey_MissingTurnsTheProviderOff, and changes nothing: it goes on where it was when the key is back.
func TestDataKey_MissingTurnsTheProviderOff(t *testing.T) {
	inEach(t, func(t *testing.T, h *signingIn) {
		granted, signed := h.exchange(h.otto().code("scope", offline)), h.signs()
		before := must(h.database.Keys.Keys(t.Context()))(t)
		h.startWith("", "")
		for _, path := range []string{"/pforte/.well-known/openid-configuration", "/pforte/oidc/jwks", "/pforte/oidc/authorize?" + asked().Encode(), "/pforte/oidc/userinfo"} {
			if got := h.otto().at("GET", path, ""); got.status != http.StatusNotFound {
				t.Errorf("%s: %d", path, got.status)
			}
		}
		if got := h.browser().at("POST", "/pforte/oidc/token", "grant_type=refresh_token", "Content-Type", "application/x-www-form-urlencoded"); got.status != http.StatusNotFound {
			t.Errorf("token: %d", got.status)
		}
		h.ok(h.policy.CreateApplication(t.Context(), session.Session{}, policy.NewApplication{Slug: "notes", URL: "https://notes.example.org"}))
		if got := h.anna().send("PUT", prefix+"/apps/notes/oidc", `{"redirects":["`+callback+`"]}`); got.status != http.StatusConflict || !strings.Contains(string(got.body), "DATA_KEY") {
			t.Errorf("a new client: %d %s", got.status, got.body)
		}
		if err := h.oidc.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := must(h.database.Keys.Keys(t.Context()))(t); len(after) != len(before) || after[0].State != before[0].State || string(after[0].Sealed) != string(before[0].Sealed) {
			t.Error("the keys were changed")
		}
		h.startWith(one, "")
		if got := h.refresh(granted.Refresh); got.status != http.StatusOK || h.signs() != signed {
			t.Errorf("with the key again: %d %s", got.status, got.body)
		}
	})
}
