package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

// AUTH-7: PATCH /me/password.

const newPass = "a new password"

func TestPasswordChange_ReplacesIt(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	if got := b.changePassword(userPass, newPass).want(http.StatusOK); string(got.body) != `{"ok":true}` {
		t.Errorf("got %s", got.body)
	}
	h.browser().login("otto", userPass).want(http.StatusUnauthorized)
	h.browser().login("otto", newPass).want(http.StatusOK)
}

func TestPasswordChange_EndsAllOtherSessions(t *testing.T) {
	h := newFixture(t)
	b, phone, laptop, other := h.otto(), h.otto(), h.otto(), h.anna()
	sid, token := b.cookies["svc.sid"], b.cookies["csrf-token"]
	b.changePassword(userPass, newPass).want(http.StatusOK)
	phone.get(prefix + "/me").want(http.StatusUnauthorized)
	laptop.logout().want(http.StatusUnauthorized)
	other.get(prefix + "/me").want(http.StatusOK)
	if b.cookies["svc.sid"] != sid || b.cookies["csrf-token"] != token {
		t.Error("the session that stays got other cookies")
	}
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestPasswordChange_NeedsBothFields(t *testing.T) {
	b := newFixture(t).otto()
	for _, body := range []string{
		`{}`, object("current_password", userPass), object("new_password", newPass), object("current_password", "", "new_password", newPass),
		object("current_password", userPass, "new_password", ""), object("current_password", userPass, "new_password", nil),
		object("currentPassword", userPass, "newPassword", newPass), object("current_password", 1, "new_password", newPass), malformed, "",
	} {
		b.send(http.MethodPatch, prefix+"/me/password", body).want(http.StatusBadRequest)
	}
	form := b.send(http.MethodPatch, prefix+"/me/password", "current_password=x", "Content-Type", "application/x-www-form-urlencoded")
	form.want(http.StatusUnsupportedMediaType)
	b.send(http.MethodPatch, prefix+"/me/password", strings.Repeat(" ", 65537)).want(http.StatusRequestEntityTooLarge)
}

func TestPasswordChange_Takes8To1024Characters(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	for _, bad := range []string{"1234567", "123456ä", strings.Repeat("x", 1025)} {
		b.changePassword(userPass, bad).want(http.StatusBadRequest)
		b.changePassword("wrong", bad).want(http.StatusBadRequest) // before the current one is checked
	}
	b.changePassword(strings.Repeat("x", 1025), newPass).want(http.StatusBadRequest)
	current := userPass
	for _, good := range []string{"12345678", "ääääääää", strings.Repeat("😀", 1024), userPass, userPass} {
		b.changePassword(current, good).want(http.StatusOK)
		current = good
	}
}

func TestPasswordChange_OfADeletedUserIsNotFound(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	if _, err := h.users.Delete(t.Context(), 2, session.Session{}); err != nil { // without the rules, which would revoke
		t.Fatal(err)
	}
	b.changePassword(userPass, newPass).want(http.StatusNotFound)
}

func TestPasswordChange_AWrongCurrentOneChangesNothing(t *testing.T) {
	h := newFixture(t)
	b, phone := h.otto(), h.otto()
	b.changePassword("wrong", newPass).want(http.StatusUnauthorized)
	phone.get(prefix + "/me").want(http.StatusOK)
	b.get(prefix + "/me").want(http.StatusOK)
	h.browser().login("otto", userPass).want(http.StatusOK)
}

func TestPasswordChange_WrongOnesAreLimitedByUser(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	for _, remaining := range []string{"4", "3", "2", "1", "0"} {
		wantLimit(t, b.changePassword("wrong", newPass).want(http.StatusUnauthorized), "5;w=60", "5", remaining, "60", "")
	}
	other := h.browser()
	other.addr = "203.0.113.5:1"
	other.login("otto", userPass).want(http.StatusOK)
	wantLimit(t, other.changePassword(userPass, newPass).want(http.StatusTooManyRequests), "5;w=60", "5", "0", "60", "60")
	h.browser().login("otto", userPass).want(http.StatusOK) // the login's bucket is untouched
	h.anna().changePassword(adminPass, newPass).want(http.StatusOK)
	h.clock.Advance(time.Minute)
	b.changePassword(userPass, newPass).want(http.StatusOK)
}

func TestPasswordChange_RightAndMalformedDoNotCount(t *testing.T) {
	b := newFixture(t).otto()
	for range 6 {
		wantLimit(t, b.changePassword(userPass, userPass).want(http.StatusOK), "5;w=60", "5", "5", "60", "")
		b.changePassword(userPass, "short").want(http.StatusBadRequest)
	}
}

func TestPasswordChange_ThatFailsOtherwiseIs500(t *testing.T) {
	h := newFixture(t)
	b := h.otto()
	h.brokenUsers.Store(true)
	b.changePassword(userPass, newPass).want(http.StatusInternalServerError)
	h.brokenUsers.Store(false)
	h.browser().login("otto", userPass).want(http.StatusOK)
}
