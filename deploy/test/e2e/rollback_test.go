package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
)

// release starts the release whose programs are in a folder on the state of the one that runs, in its place.
func (w *world) release(t *testing.T, bin string) {
	t.Helper()
	for _, name := range []string{"proxy", "verifier", "auth"} {
		w.Programs.End(t.Context(), name, 10*time.Second)
	}
	of := w.Layout
	of.Bin = bin
	w.restart(t, of.Auth(), of.Verifier(), of.Proxy())
}

// codeOf returns what an authenticator app shows for a secret in base32 (RFC 6238).
func codeOf(t *testing.T, secret string) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, time.Now().Unix()/30)
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&(1<<31-1)%1e6)
}

// TestRollBack_LosesWhatThePageSaysUntilTheNextUpgrade starts the release before on the state of this one, and then
// this one again. What upgrade.md says of the time between is of a release without pages.
func TestRollBack_LosesWhatThePageSaysUntilTheNextUpgrade(t *testing.T) {
	before := filepath.Join(os.Getenv("PFORTE_BIN"), "before")
	if _, err := os.Stat(filepath.Join(before, "auth")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the release before is not built, and CI is set")
		}
		t.Skip("make e2e builds the release before where git has its source")
	}
	const password, changed = "a password of eight", "another password of eight"
	notes := named(t, "notes", "127.0.0.1:1")
	w := newWorld(t, options{change: func(l *layout.Layout) {
		l.PublicURL = "http://" + l.Addresses.Proxy // the release before has other documents
		l.Extra["pforte-proxy"] = map[string]string{"APPS": "lan", "APPS_TO": notes}
	}})
	admin := w.admin(t)
	paul, _ := w.member(t, "paul")
	mia, _ := w.member(t, "mia")
	lena, _ := w.member(t, "lena")
	var setup struct{ Data struct{ Secret string } }
	mia.request("POST", "/api/v1/auth/2fa/setup", "").want(t, 200, &setup)
	var factor struct {
		Data struct {
			Codes []string `json:"recovery_codes"`
		}
	}
	code := codeOf(t, setup.Data.Secret)
	mia.request("POST", "/api/v1/auth/2fa/enable", `{"code":"`+code+`"}`).want(t, 200, &factor)
	w.authCommand(t, "user", "disable", "lena")
	_, invite, _ := strings.Cut(w.authCommand(t, "invite", "add", "otto"), "?t=")
	invite = "/api/v1/auth/invites/preview?token=" + strings.Fields(invite)[0]
	w.authCommand(t, "app", "add", "notes", "/notes/", "--tokens")
	w.route(t, "notes", notes, "--strip")
	token := paul.token(false, "app:notes")
	status := func(name, secret string) int {
		return newBrowser(t, w.PublicURL).request("POST", "/api/v1/auth/login", credentials(name, secret)).StatusCode
	}
	// works fails unless what only this release has works.
	works := func() {
		t.Helper()
		eventually(t, "the application is there", func(context.Context) error {
			if got := paul.request("GET", "/notes/at", ""); string(got.body) != "notes\n" {
				return fmt.Errorf("%d %s", got.StatusCode, got.body)
			}
			return nil
		})
		anybody := newBrowser(t, w.PublicURL)
		anybody.request("GET", "/notes/at", "", "X-Pforte-Token", token).want(t, 200, nil)
		anybody.request("GET", "/pforte/login", "").want(t, 200, nil)
		anybody.request("GET", invite, "").want(t, 200, nil)
		var pending struct {
			Required bool `json:"twoFactorRequired"`
		}
		mia = newBrowser(t, w.PublicURL)
		mia.request("POST", "/api/v1/auth/login", credentials("mia", password)).want(t, 200, &pending)
		if !pending.Required {
			t.Error("mia's second factor is not asked for")
		}
		mia.request("POST", "/api/v1/auth/2fa/verify", `{"code":"`+factor.Data.Codes[0]+`"}`).want(t, 200, nil)
		factor.Data.Codes = factor.Data.Codes[1:]
		mia.me(200)
		if got := status("lena", password); got != 403 {
			t.Errorf("the login of a disabled account is answered %d", got)
		}
	}
	works()
	first := w.buy(t, "--status", "success")

	w.release(t, before)
	paul.me(200)
	admin.me(200)
	w.checkReceipt(t, first.Answer)
	second := w.buy(t, "--status", "success")
	if newBrowser(t, w.PublicURL).request("GET", "/pforte/login", "").StatusCode == http.StatusNotFound {
		mia.me(200)
		for name, want := range map[string]int{"mia": 401, "lena": 200} {
			if got := status(name, password); got != want {
				t.Errorf("%s's login is answered %d", name, got)
			}
		}
		for _, path := range []string{"/notes/at", invite} {
			paul.request("GET", path, "", "X-Pforte-Token", token).want(t, 404, nil)
		}
	}
	change := fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, password, changed)
	paul.request("PATCH", "/api/v1/auth/me/password", change).want(t, 200, nil)
	rosa := admin.create("rosa", password)
	lena.request("POST", "/api/v1/auth/login", credentials("lena", password))

	w.release(t, w.Bin)
	paul.me(200)
	admin.me(200)
	if got := newBrowser(t, w.PublicURL).login("rosa", password); got != rosa {
		t.Errorf("rosa is %+v", got)
	}
	if old, now := status("paul", password), status("paul", changed); old != 401 || now != 200 {
		t.Errorf("paul's passwords are answered %d and %d", old, now)
	}
	mia.me(200)
	lena.me(401)
	works()
	for _, bought := range []purchase{first, second} {
		w.checkReceipt(t, bought.Answer)
	}
	if got := w.income(t); got != 2*price {
		t.Errorf("%d was paid", got)
	}
}
