package session_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
)

func TestFactor_IsToldByTheNamesOfTheStandards(t *testing.T) {
	for f, want := range map[session.Factor][]string{
		session.Password:             {"pwd", "pwd"},
		"":                           {"pwd", "pwd"}, // of an earlier version
		session.PasswordWithTOTP:     {"mfa", "pwd", "otp", "mfa"},
		session.PasswordWithRecovery: {"mfa", "pwd", "kba", "mfa"},
		session.PasswordWithPasskey:  {"phr", "pwd", "swk", "mfa"},
		session.Passkey:              {"phr", "swk", "user", "mfa"},
	} {
		if got := append([]string{f.ACR()}, f.AMR()...); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", f, got, want)
		}
	}
}

func TestSession_ThatReplacesAnotherKeepsItsLogin(t *testing.T) {
	first, _ := session.New(42, "", time.Unix(0, 0))
	second, _ := first.Next(session.Passkey, time.Unix(60, 0))
	third, _ := second.Next(session.Password, time.Unix(90, 0))
	if first.Login != first.Key || second.Key == first.Key || second.Login != first.Key || third.Login != first.Key {
		t.Errorf("got %s, %s, %s of %s", first.Login, second.Login, third.Login, first.Key)
	}
	if other, _ := session.New(42, "", time.Unix(0, 0)); other.Login == first.Login {
		t.Error("two logins are one")
	}
}
