package user_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/services/auth/internal/user"
)

func TestUsername_Has3To64Characters(t *testing.T) {
	for _, name := range []string{"abc", "A.b-c_9", "...", strings.Repeat("x", 64)} {
		if err := user.CheckUsername(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "ab", strings.Repeat("x", 65), "with space", "abc\n", "\nabc", "abc\x00", "jürgen", "\u0430bcd", "a/b", "a@b.c", "abc\u200b", "abc\xff",
	} {
		if err := user.CheckUsername(name); !errors.Is(err, user.ErrUsername) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestDisplayName_IsTrimmedAndOtherwiseVerbatim(t *testing.T) {
	long := strings.Repeat("ä", 128)
	for given, want := range map[string]string{
		"Anna": "Anna", "  Anna \t\n": "Anna", "\u00a0Anna\u2003": "Anna", long: long, " " + long + " ": long,
		"Zoe\u0308": "Zoe\u0308", "👩\u200d👩\u200d👧": "👩\u200d👩\u200d👧", "O'Brien <b>": "O'Brien <b>", "!": "!", "מרים": "מרים",
		strings.Repeat("🙂", 128): strings.Repeat("🙂", 128), "می\u200cخواهم": "می\u200cخواهم", "क्\u200dष": "क्\u200dष",
		"🏳\ufe0f\u200d🌈": "🏳\ufe0f\u200d🌈", "🙂\u200d↔\ufe0f": "🙂\u200d↔\ufe0f", "👩🏽\u200d⚕\ufe0f": "👩🏽\u200d⚕\ufe0f",
	} {
		got, err := user.CleanDisplayName(given)
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v", given, got, err)
		}
	}
}

func TestDisplayName_IsRefused(t *testing.T) {
	for given, want := range map[string]error{
		"": user.ErrDisplayName, "\u00a0\u2003": user.ErrDisplayName, "\u200b\u2060": user.ErrDisplayName, "\u0301": user.ErrDisplayName, "\u2800": user.ErrDisplayName,
		"a\x00b": user.ErrDisplayName, "a\nb": user.ErrDisplayName, "a\x7fb": user.ErrDisplayName, "a\u0085b": user.ErrDisplayName,
		"Paul \u202egnp.exe": user.ErrDisplayName, "An\u200bna": user.ErrDisplayName, "a\u202bb": user.ErrDisplayName,
		"a\u2067b": user.ErrDisplayName, "a\u00adb": user.ErrDisplayName, "a\ufeffb": user.ErrDisplayName, "a\u2060b": user.ErrDisplayName,
		"\u200dAnna": user.ErrDisplayName, "Anna\u200d": user.ErrDisplayName, "An\u200d\u200dna": user.ErrDisplayName,
		"Anna \u200cB": user.ErrDisplayName, "a\U000e0041b": user.ErrDisplayName, "\u3164": user.ErrDisplayName, "a\u115fb": user.ErrDisplayName,
		"a\u2028b": user.ErrDisplayName, "a\xffb": user.ErrDisplayName,
		strings.Repeat("ä", 129): user.ErrDisplayNameTooLong, strings.Repeat("🙂", 129): user.ErrDisplayNameTooLong,
	} {
		if got, err := user.CleanDisplayName(given); !errors.Is(err, want) {
			t.Errorf("%q: got %q, %v", given, got, err)
		}
	}
}

func TestAvatarColor_IsACSSHexColour(t *testing.T) {
	for _, color := range []string{"#007AFF", "#abc", "#A1b2C3", user.DefaultAvatarColor} {
		if err := user.CheckAvatarColor(color); err != nil {
			t.Errorf("%q: %v", color, err)
		}
	}
	for _, color := range []string{"", "#", "#12", "#1234", "#12345", "#1234567", "#GGGGGG", "007AFF", "red", "#007AFF\n", "#007AFF;x:y"} {
		if err := user.CheckAvatarColor(color); !errors.Is(err, user.ErrAvatarColor) {
			t.Errorf("%q: %v", color, err)
		}
	}
}

func TestRole_IsAdminOrMember(t *testing.T) {
	for _, role := range []user.Role{user.Admin, user.Member} {
		if got, err := user.ParseRole(string(role)); err != nil || got != role {
			t.Errorf("%q: got %q, %v", role, got, err)
		}
	}
	for _, name := range []string{"", "Admin", "ADMIN", "owner", "admin ", "admin\x00"} {
		if _, err := user.ParseRole(name); !errors.Is(err, user.ErrRole) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSort_ByDisplayNameAsGermansDoThenByID(t *testing.T) {
	var users []user.User
	for i, name := range []string{"Zoe", "Ärger", "anna", "Özge", "Anna", "Arnold", "otto", "ßack", "Ute", "anna", "Über", "Straße", "Strasse"} {
		users = append(users, user.User{ID: int64(100 - i), New: user.New{DisplayName: name}})
	}
	user.Sort(users)
	var names []string
	for _, u := range users {
		names = append(names, u.DisplayName)
	}
	want := []string{"anna", "anna", "Anna", "Ärger", "Arnold", "otto", "Özge", "ßack", "Strasse", "Straße", "Über", "Ute", "Zoe"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if users[0].ID > users[1].ID {
		t.Error("equal names are not by id")
	}
}

func FuzzCleanDisplayName(f *testing.F) {
	for _, seed := range []string{"Anna", " a\u00a0", "a\x00", "\xff", "👩\u200d👧", "\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		name, err := user.CleanDisplayName(given)
		if err != nil {
			return
		}
		again, err := user.CleanDisplayName(name)
		if err != nil || again != name {
			t.Errorf("%q became %q, and that %q, %v", given, name, again, err)
		}
		if !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r\u2028") || utf8.RuneCountInString(name) > user.MaxDisplayName {
			t.Errorf("%q was accepted as %q", given, name)
		}
	})
}

func TestCheckChosenUsername_RefusesNamesThatApplicationsKnow(t *testing.T) {
	for _, name := range []string{
		"admin", "ADMIN", "Administrator", "root", "system", "operator", "nobody", "member", "admin.", "_admin_", "ad-min", "r.o.o.t", "gitea_admin",
		"grafana-admin", "admin.anna", "www-data", "-rf", "--help", "-anna",
	} {
		if err := user.CheckChosenUsername(name); !errors.Is(err, user.ErrUsernameReserved) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"anna", "joe.root", "adminah", "badminton", "roots", "anna-maria", "a_", "otto.system", "Rooter", "..."} {
		if err := user.CheckChosenUsername(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
