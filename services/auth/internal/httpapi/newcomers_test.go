package httpapi_test

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
)

// options begins to join by a passkey.
func (b *browser) options(token string, pairs ...any) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/join/passkey/options", object(append([]any{"token", token}, pairs...)...))
}

// joinBy joins by the passkey of an authenticator.
func (b *browser) joinBy(d *passkeytest.Authenticator, token string, pairs ...any) reply {
	b.h.t.Helper()
	made := d.Create(b.options(token, pairs...).want(http.StatusOK).body)
	return b.send(http.MethodPost, prefix+"/join/passkey", object("token", token, "credential", made))
}

// joined is a browser of paul, who has a passkey and no password, with the path of that one.
func (h *fixture) joined() (*browser, *passkeytest.Authenticator, string) {
	h.t.Helper()
	d, b := passkeytest.New(h.t, origin), h.elsewhere()
	b.joinBy(d, h.invite("username", "paul", "display_name", "Paul")).want(http.StatusCreated)
	var list struct{ Data []struct{ ID int64 } }
	b.get(prefix + "/passkeys").want(http.StatusOK).into(&list)
	return b, d, prefix + "/passkeys/" + string(rune('0'+list.Data[0].ID))
}

func TestNewcomer_JoinsByAPasskeyWithoutAPassword(t *testing.T) {
	h := newFixture(t)
	b, d, path := h.joined()
	var me struct {
		User struct{ Username, Role string }
	}
	b.get(prefix + "/me").want(http.StatusOK).into(&me)
	if me.User.Username != "paul" || me.User.Role != "member" || b.cookies["svc.dev"] == "" {
		t.Errorf("got %+v, cookies %v", me, b.cookies)
	}
	for _, pass := range []string{"!", " ", userPass} { // no password is right
		h.elsewhere().login("paul", pass).want(http.StatusUnauthorized)
		b.changePassword(pass, newPass).want(http.StatusUnauthorized)
	}
	h.elsewhere().passkeyLogin(d).want(http.StatusOK)
	b.send(http.MethodPost, prefix+"/reauth", object("password", "!")).because(http.StatusUnauthorized, "wrong_password")
	b.send(http.MethodPost, prefix+"/reauth/passkey", credential(d.Get(b.begin("/reauth/passkey/options")), "")).want(http.StatusOK)
	b.send(http.MethodDelete, path, "").because(http.StatusConflict, "last_passkey")

	second := b.register(passkeytest.New(t, origin))
	b.send(http.MethodDelete, path, "").want(http.StatusOK)
	h.elsewhere().passkeyLogin(d).because(http.StatusUnauthorized, "passkey_failed")
	b.send(http.MethodDelete, second, "").because(http.StatusConflict, "last_passkey")
}

func TestNewcomer_ByAPasskeyEndsTheSessionThatTheBrowserHad(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	before := b.copy()
	b.joinBy(passkeytest.New(t, origin), h.invite(), "username", "mia").want(http.StatusCreated)
	if me := b.get(prefix + "/me").want(http.StatusOK); !bytes.Contains(me.body, []byte(`"mia"`)) {
		t.Error(me.body)
	}
	before.get(prefix + "/me").want(http.StatusUnauthorized)
}

func TestNewcomer_OfManyRemovalsAtOnceOnePasskeyStays(t *testing.T) {
	h := newFixture(t)
	b, _, first := h.joined()
	paths := []string{first}
	for range 9 {
		paths = append(paths, b.register(passkeytest.New(t, origin)))
	}
	var next, refused, removed atomic.Int32
	h.atOnce(100, func(*browser) {
		switch got := b.copy().send(http.MethodDelete, paths[int(next.Add(1))%len(paths)], ""); got.status {
		case http.StatusOK:
			removed.Add(1)
		case http.StatusConflict:
			refused.Add(1)
		case http.StatusNotFound:
		default:
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	var list struct{ Data []struct{ ID int64 } }
	b.get(prefix + "/passkeys").want(http.StatusOK).into(&list)
	if len(list.Data) != 1 || removed.Load() != 9 || refused.Load() == 0 {
		t.Errorf("%d are left, %d were removed, %d refused", len(list.Data), removed.Load(), refused.Load())
	}
}

// TestNewcomer_PasskeyOfAnotherAddressIsNoOther: it does not work here.
func TestNewcomer_PasskeyOfAnotherAddressIsNoOther(t *testing.T) {
	h := newFixture(t)
	b, _, path := h.joined()
	var paul struct{ User struct{ ID int64 } }
	b.get(prefix + "/me").want(http.StatusOK).into(&paul)
	u := must(h.users.ByID(t.Context(), paul.User.ID))(t)
	foreign := factor.Credential{CredentialID: []byte("id"), RPID: "old.example.org", Record: "{}"}
	must(h.database.Passkeys.AddPasskey(t.Context(), u.ID, "old", foreign, u.SessionStamp, ""))(t)
	b.send(http.MethodDelete, path, "").because(http.StatusConflict, "last_passkey")
}

func TestNewcomer_LinkOfALostDeviceSetsAPassword(t *testing.T) {
	h := newFixture(t)
	b, d, path := h.joined()
	var paul struct{ User struct{ ID int64 } }
	b.get(prefix + "/me").want(http.StatusOK).into(&paul)
	var made struct{ Token string }
	h.anna().send(http.MethodPost, prefix+"/users/"+string(rune('0'+paul.User.ID))+"/reset-link", "").want(http.StatusCreated).into(&made)
	h.elsewhere().reset(made.Token, newPass).want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusUnauthorized)
	b = h.elsewhere()
	b.login("paul", newPass).want(http.StatusOK)
	h.elsewhere().passkeyLogin(d).want(http.StatusOK)
	b.send(http.MethodDelete, path, "").want(http.StatusOK) // the password is left
}

func TestNewcomer_SetsTheHouseholdUp(t *testing.T) {
	h := emptied(t)
	token, d := h.setupLink(), passkeytest.New(t, origin)
	b := h.elsewhere()
	b.options(token, "household", "x", "username", "-petra", "display_name", "Petra").because(http.StatusBadRequest, "username_reserved")
	b.joinBy(d, token, "household", "Familie Berg", "username", "petra", "display_name", "Petra").want(http.StatusCreated)
	b.get(prefix + "/users").want(http.StatusOK) // as an admin
	if household := must(h.accounts.Household(t.Context()))(t); household.Name != "Familie Berg" {
		t.Errorf("the household is %q", household.Name)
	}
	h.elsewhere().options(token, "username", "eve", "display_name", "Eve").because(http.StatusBadRequest, "invalid_token")
}

func TestNewcomer_IsRefusedBeforeThePasskeyIsMade(t *testing.T) {
	h := newFixture(t)
	token := h.invite()
	b := h.elsewhere()
	b.options("nonsense", "username", "mia").because(http.StatusBadRequest, "invalid_token")
	b.options(token).want(http.StatusBadRequest)
	b.options(token, "username", "otto").want(http.StatusConflict)
	b.options(token, "username", "root").because(http.StatusBadRequest, "username_reserved")
	b.options(token, "username", "mia", "display_name", "a\u202eb").want(http.StatusBadRequest)
	b.send(http.MethodPost, prefix+"/join/passkey", object("token", token)).want(http.StatusBadRequest)
	d := passkeytest.New(t, origin)
	made := d.Create(b.options(token, "username", "mia").want(http.StatusOK).body)
	other := h.invite("username", "paul")
	b.send(http.MethodPost, prefix+"/join/passkey", object("token", other, "credential", made)).because(http.StatusBadRequest, "passkey_failed")
	b.send(http.MethodPost, prefix+"/join/passkey", object("token", token, "credential", made)).because(http.StatusBadRequest, "passkey_failed") // it counted once
	b = h.elsewhere()
	b.joinBy(d, token, "username", "mia").want(http.StatusCreated)
	h.elsewhere().options(token, "username", "eve").because(http.StatusBadRequest, "invalid_token")
}

// TestNewcomer_NameThatCannotBeHadIsRefusedBeforeThePasskeyIsMade: in another case, of a deleted user, or of an invite
// whose name has become another's.
func TestNewcomer_NameThatCannotBeHadIsRefusedBeforeThePasskeyIsMade(t *testing.T) {
	h := newFixture(t)
	token, named := h.invite(), h.invite("username", "nina")
	h.elsewhere().options(token, "username", "OTTO").want(http.StatusConflict)
	h.elsewhere().joinBy(passkeytest.New(t, origin), h.invite(), "username", "lena").want(http.StatusCreated)
	h.elsewhere().joinBy(passkeytest.New(t, origin), h.invite(), "username", "Nina").want(http.StatusCreated)
	h.elsewhere().options(named).want(http.StatusConflict)
	h.anna().send(http.MethodDelete, prefix+"/users/3", "").want(http.StatusOK)
	h.elsewhere().options(token, "username", "lena").because(http.StatusConflict, "username_former")
}

func TestNewcomer_NameTakenWhileThePasskeyWasMadeIsRefused(t *testing.T) {
	h := newFixture(t)
	token, late, d := h.invite(), h.elsewhere(), passkeytest.New(t, origin)
	made := d.Create(late.options(token, "username", "mia").want(http.StatusOK).body)
	h.elsewhere().joinBy(passkeytest.New(t, origin), h.invite(), "username", "mia").want(http.StatusCreated)
	late.send(http.MethodPost, prefix+"/join/passkey", object("token", token, "credential", made)).want(http.StatusConflict)
	late.joinBy(d, token, "username", "maja").want(http.StatusCreated) // the invite was not used up
}

func TestNewcomer_OfManyAtOnceWithOneInviteOneJoins(t *testing.T) {
	h := newFixture(t)
	token := h.invite("username", "paul")
	var ready []func() reply
	for range 100 {
		b, d := h.elsewhere(), passkeytest.New(t, origin)
		made := d.Create(b.options(token).want(http.StatusOK).body)
		ready = append(ready, func() reply {
			return b.send(http.MethodPost, prefix+"/join/passkey", object("token", token, "credential", made))
		})
	}
	var next, joined atomic.Int32
	h.atOnce(len(ready), func(*browser) {
		switch got := ready[next.Add(1)-1](); got.status {
		case http.StatusCreated:
			joined.Add(1)
		case http.StatusBadRequest, http.StatusConflict:
		default:
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	if joined.Load() != 1 {
		t.Errorf("%d joined", joined.Load())
	}
}
