package password_test

import (
	"errors"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/password"
)

func TestCheck_AWellKnownOneOrANameIsRefused(t *testing.T) {
	names := []string{"petra.berg", "Petra Müller", ""}
	for _, pw := range []string{"password", "PassWord", "12345678", "qwertyuiop", "Petra.Berg", "petra mu\u0308ller", " password "} {
		if err := password.CheckCommon(pw, names...); !errors.Is(err, password.ErrCommon) {
			t.Errorf("%q: %v", pw, err)
		}
	}
	for _, pw := range []string{"correct horse", "petra.berg und mehr", "übermäßig rätselhaft"} {
		if err := password.CheckCommon(pw, names...); err != nil {
			t.Errorf("%q: %v", pw, err)
		}
	}
}
