package httpapi_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// AUTH-6.6 to AUTH-6.12: GET, POST and DELETE /users.

func newUser(change ...any) string {
	pairs := append([]any{"username", "lena", "display_name", "Lena", "password", "long enough"}, change...)
	return object(pairs...)
}

func (b *browser) create(change ...any) reply {
	b.h.t.Helper()
	return b.send(http.MethodPost, prefix+"/users", newUser(change...))
}

func (b *browser) delete(id string) reply {
	b.h.t.Helper()
	return b.send(http.MethodDelete, prefix+"/users/"+id, "")
}

func (b *browser) list() []person {
	b.h.t.Helper()
	return read[struct{ Data []person }](b.get(prefix + "/users").want(http.StatusOK)).Data
}

func TestUsers_ListHasAllWithTheirCreation(t *testing.T) {
	b := newFixture(t).anna()
	got := b.get(prefix + "/users").want(http.StatusOK)
	want := `{"data":[` +
		`{"id":1,"username":"anna","display_name":"Anna","avatar_color":"#007AFF","role":"admin","created_at":"2026-03-01T12:00:00Z"},` +
		`{"id":2,"username":"otto","display_name":"Otto","avatar_color":"#007AFF","role":"member","created_at":"2026-03-01T12:00:00Z"}]}`
	if diff := cmp.Diff(want, string(got.body)); diff != "" {
		t.Error(diff)
	}
}

func TestUsers_ListIsOrderedAsGermansExpect(t *testing.T) {
	h := newFixture(t)
	for i, name := range []string{"Zoe", "Özlem", "anton", "Ärmel", "Ole", "Anna"} {
		h.add("user"+strconv.Itoa(i), name, userPass, "member")
	}
	var got []string
	for _, p := range h.anna().list() {
		got = append(got, p.DisplayName+" "+strconv.FormatInt(p.ID, 10))
	}
	want := []string{"Anna 1", "Anna 8", "anton 5", "Ärmel 6", "Ole 7", "Otto 2", "Özlem 4", "Zoe 3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCreateUser_AnswersTheUser(t *testing.T) {
	h := newFixture(t)
	got := h.anna().create().want(http.StatusCreated)
	want := `{"user":{"id":3,"username":"lena","display_name":"Lena","avatar_color":"#007AFF","role":"member"}}`
	if diff := cmp.Diff(want, string(got.body)); diff != "" {
		t.Error(diff)
	}
	h.browser().login("lena", "long enough").want(http.StatusOK)
}

func TestCreateUser_TakesColourAndRole(t *testing.T) {
	b := newFixture(t).anna()
	got := read[struct{ User person }](b.create("avatar_color", "#fA0", "role", "admin").want(http.StatusCreated))
	if got.User.AvatarColor != "#fA0" || got.User.Role != "admin" {
		t.Errorf("got %+v", got)
	}
	got = read[struct{ User person }](b.create("username", "paul", "avatar_color", nil, "role", nil).want(http.StatusCreated))
	if got.User.AvatarColor != "#007AFF" || got.User.Role != "member" {
		t.Errorf("null is not the default: %+v", got)
	}
}

func TestCreateUser_RefusesWhatTheContractRefuses(t *testing.T) {
	b := newFixture(t).anna()
	long := strings.Repeat("ä", 129)
	for name, change := range map[string][]any{
		"no username":                         {"username", ""},
		"no username at all":                  {"username", nil},
		"no display name":                     {"display_name", ""},
		"no password":                         {"password", ""},
		"a password of 7 characters":          {"password", "1234567"},
		"a password of 7 characters, 8 bytes": {"password", "123456ä"},
		"a password of 1025 characters":       {"password", strings.Repeat("x", 1025)},
		"a username of 2 characters":          {"username", "ab"},
		"a username of 65 characters":         {"username", strings.Repeat("a", 65)},
		"a username with a space":             {"username", "le na"},
		"a username with an umlaut":           {"username", "läna"},
		"a username with a homograph":         {"username", "lеna"},
		"a username with a line break":        {"username", "lena\n"},
		"a username with a NUL":               {"username", "lena\x00"},
		"a display name of 129 characters":    {"display_name", long},
		"a blank display name":                {"display_name", " \t "},
		"a control character in it":           {"display_name", "Le\x07na"},
		"another role":                        {"role", "owner"},
		"an empty role":                       {"role", ""},
		"a role in another case":              {"role", "Admin"},
		"an empty colour":                     {"avatar_color", ""},
		"a colour that is none":               {"avatar_color", "red"},
		"a colour with more":                  {"avatar_color", "#007AFF;background:url(x)"},
	} {
		if got := b.create(change...); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %d", name, got.status)
		}
	}
	for _, body := range []string{`{}`, `[]`, `null`, `{"username":["lena"],"display_name":"Lena","password":"long enough"}`, newUser("role", 1), newUser("avatar_color", true)} {
		b.send(http.MethodPost, prefix+"/users", body).want(http.StatusBadRequest)
	}
	if n := len(b.list()); n != 2 {
		t.Errorf("there are %d users", n)
	}
}

func TestCreateUser_ValidatesInTheContractsOrder(t *testing.T) {
	b := newFixture(t).anna()
	tooLong := strings.Repeat("x", 129)
	for _, c := range []struct {
		want   string
		change []any
	}{
		{"Pflichtfelder", []any{"username", "", "password", "short", "display_name", tooLong, "role", "x"}},
		{"mindestens 8", []any{"username", "a", "password", "short", "display_name", tooLong, "role", "x"}},
		{"Benutzername", []any{"username", "a", "display_name", tooLong, "role", "x"}},
		{"Anzeigename", []any{"display_name", tooLong, "role", "x"}},
		{"Rolle", []any{"role", "x"}},
	} {
		if got := b.create(c.change...).want(http.StatusBadRequest); !strings.Contains(string(got.body), c.want) {
			t.Errorf("want %q in %s", c.want, got.body)
		}
	}
}

func TestCreateUser_TakesEverythingUpToTheLimits(t *testing.T) {
	b := newFixture(t).anna()
	for i, change := range [][]any{
		{"username", "a.b"},
		{"username", strings.Repeat("a", 64)},
		{"username", "A-_.9"},
		{"username", "u4", "password", "12345678"},
		{"username", "u-5", "password", strings.Repeat("ä", 8)},
		{"username", "u-6", "password", strings.Repeat("😀", 1024)},
		{"username", "u-7", "display_name", strings.Repeat("ä", 128)},
		{"username", "u-8", "display_name", "<b>Zoë & \"Ole\"</b>"},
	} {
		if i == 3 {
			change[1] = "u-4"
		}
		b.create(change...).want(http.StatusCreated)
	}
}

func TestCreateUser_KeepsTheDisplayNameButTrims(t *testing.T) {
	b := newFixture(t).anna()
	for name, want := range map[string]string{"  Lena  ": "Lena", "Le\u0301na": "Le\u0301na", "Léna": "Léna", "<i>L</i>": "<i>L</i>", "😀": "😀"} {
		got := read[struct{ User person }](b.create("display_name", name, "username", "u"+strconv.Itoa(len(b.list()))+"x").want(http.StatusCreated))
		if got.User.DisplayName != want {
			t.Errorf("%q became %q", name, got.User.DisplayName)
		}
	}
}

func TestCreateUser_WithATakenNameIsAConflict(t *testing.T) {
	b := newFixture(t).anna()
	b.create("username", "otto").want(http.StatusConflict)
	b.create("username", "OTTO").want(http.StatusConflict)
}

func TestCreateUser_ThatFailsOtherwiseIs500(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	h.brokenUsers.Store(true)
	b.create().want(http.StatusInternalServerError)
	b.get(prefix + "/users").want(http.StatusInternalServerError)
	b.delete("2").want(http.StatusInternalServerError)
}

func TestDeleteUser_EndsAllTheirSessions(t *testing.T) {
	h := newFixture(t)
	a := h.anna()
	phone, laptop := h.otto(), h.otto()
	if got := a.delete("2").want(http.StatusOK); string(got.body) != `{"ok":true}` {
		t.Errorf("got %s", got.body)
	}
	phone.get(prefix + "/me").want(http.StatusUnauthorized)
	laptop.logout().want(http.StatusUnauthorized)
	h.browser().login("otto", userPass).want(http.StatusUnauthorized)
	a.get(prefix + "/me").want(http.StatusOK)
}

func TestDeleteUser_AnAdminLosesAdminRoutesAtOnce(t *testing.T) {
	h := newFixture(t)
	h.add("lena", "Lena", userPass, "admin")
	lena := h.loggedIn("lena", userPass)
	lena.get(prefix + "/users").want(http.StatusOK)
	h.anna().delete("3").want(http.StatusOK)
	lena.get(prefix + "/users").want(http.StatusUnauthorized)
}

func TestDeleteUser_OfOneselfIsRefused(t *testing.T) {
	h := newFixture(t)
	h.add("lena", "Lena", userPass, "admin") // so that anna is not the last admin
	b := h.anna()
	b.delete("1").want(http.StatusBadRequest)
	b.delete("01").want(http.StatusBadRequest)
	b.get(prefix + "/me").want(http.StatusOK)
}

func TestDeleteUser_ThatIsUnknownIsNotFound(t *testing.T) {
	b := newFixture(t).anna()
	for _, id := range []string{
		"3", "0", "x", "2x", "+2", "-2", "1.9", "0x2", "%202", "2%20", "٢", "9223372036854775807", "9223372036854775808", "18446744073709551618", "1e0", "2,1", "%32", "2/", "2/x", "2%2F",
	} {
		b.delete(id).want(http.StatusNotFound)
	}
	if n := len(b.list()); n != 2 {
		t.Errorf("%d users are left", n)
	}
	b.delete("2").want(http.StatusOK)
	b.delete("2").want(http.StatusNotFound)
}

func TestAnswers_HoldNoPasswordOrHash(t *testing.T) {
	h := newFixture(t)
	b := h.anna()
	secretWord := regexp.MustCompile(`password|hash|\$2|correct horse`)
	for _, got := range []reply{b.get(prefix + "/me"), b.get(prefix + "/users"), b.create(), b.login("anna", adminPass)} {
		if secretWord.Match(got.body) {
			t.Errorf("%s: %s", got.what, got.body)
		}
	}
}
