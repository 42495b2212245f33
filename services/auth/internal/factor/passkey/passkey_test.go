package passkey_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/factor/passkey"
	"github.com/pforte/pforte/services/auth/internal/factor/passkeytest"
)

const origin = "https://home.example.org:8443"

// person is a user with an authenticator.
type person struct {
	factor.PasskeyUser
	*passkeytest.Authenticator
}

func newParty(t *testing.T, publicURL, id string) factor.RelyingParty {
	t.Helper()
	party, err := passkey.New(passkey.Options{PublicURL: publicURL, RPID: id})
	if err != nil {
		t.Fatal(err)
	}
	return party
}

func newPerson(t *testing.T, name string) *person {
	t.Helper()
	handle := make([]byte, factor.HandleBytes)
	_, _ = rand.Read(handle)
	return &person{factor.PasskeyUser{Handle: handle, Name: name, DisplayName: name}, passkeytest.New(t, origin)}
}

// register returns the error of a registration, and keeps the passkey when there is none.
func (p *person) register(t *testing.T, party factor.RelyingParty) error {
	t.Helper()
	options, state, err := party.BeginRegister("Zuhause", p.PasskeyUser)
	if err != nil {
		t.Fatal(err)
	}
	c, err := party.FinishRegister(p.PasskeyUser, state, p.Create(options))
	if err == nil {
		p.Passkeys = append(p.Passkeys, factor.Passkey{ID: int64(len(p.Passkeys) + 1), Credential: c})
	}
	return err
}

// finder finds the user of a handle among people.
func finder(people ...*person) func([]byte) (factor.PasskeyUser, error) {
	return func(handle []byte) (factor.PasskeyUser, error) {
		for _, p := range people {
			if bytes.Equal(p.PasskeyUser.Handle, handle) {
				return p.PasskeyUser, nil
			}
		}
		return factor.PasskeyUser{}, factor.ErrNoPasskey
	}
}

func TestPasskey_RegistersAndThenLogsIn(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	anna.Step = 1
	if err := anna.register(t, party); err != nil {
		t.Fatal(err)
	}
	p := anna.Passkeys[0]
	if p.RPID != "home.example.org" || !bytes.Equal(p.CredentialID, anna.Keys[0].ID) || p.SignCount != 1 || !party.Synced(p) {
		t.Errorf("got %+v", p)
	}
	options, state, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	a, err := party.FinishLogin(finder(anna), state, anna.Get(options))
	if err != nil || a.Passkey.ID != p.ID || a.Passkey.SignCount != 2 || a.FlagsChanged {
		t.Errorf("got %+v, %v", a, err)
	}
	if options, state, err = party.BeginVerify(anna.PasskeyUser); err != nil {
		t.Fatal(err)
	}
	anna.Authenticator.Handle = []byte{} // an authenticator may leave it out when it is told the credential
	if a, err := party.FinishVerify(anna.PasskeyUser, state, anna.Get(options)); err != nil || a.Passkey.ID != p.ID {
		t.Errorf("got %+v, %v", a, err)
	}
}

// TestPasskey_LargeAnswerIsRefused: one of 59 KB had a signature verified by a key of 44 KB for four seconds.
func TestPasskey_LargeAnswerIsRefused(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	if err := anna.register(t, party); err != nil {
		t.Fatal(err)
	}
	anna.Extensions = map[string]any{"x": strings.Repeat("x", 8<<10)}
	options, state, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := party.FinishLogin(finder(anna), state, anna.Get(options)); !errors.Is(err, factor.ErrPasskeyFailed) {
		t.Errorf("a login: got %v", err)
	}
	anna.Passkeys, anna.Keys = nil, nil
	if err := anna.register(t, party); !errors.Is(err, factor.ErrPasskeyFailed) {
		t.Errorf("a registration: got %v", err)
	}
}

func TestOptions_AskForADiscoverableVerifiedCredential(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	if err := anna.register(t, party); err != nil {
		t.Fatal(err)
	}
	register, _, err := party.BeginRegister("Zuhause", anna.PasskeyUser)
	if err != nil {
		t.Fatal(err)
	}
	var created struct {
		PublicKey struct {
			RP                     map[string]string
			User                   map[string]string
			Attestation            string
			Timeout                int
			AuthenticatorSelection map[string]any
			Extensions             map[string]any
			ExcludeCredentials     []map[string]any
		}
	}
	if err := json.Unmarshal(register, &created); err != nil {
		t.Fatal(err)
	}
	o := created.PublicKey
	if o.RP["id"] != "home.example.org" || o.RP["name"] != "Zuhause" || o.User["name"] != "anna" || len(o.User["id"]) != 86 ||
		o.Attestation != "none" || o.Timeout != 300_000 || o.AuthenticatorSelection["residentKey"] != "required" || o.AuthenticatorSelection["requireResidentKey"] != true ||
		o.AuthenticatorSelection["userVerification"] != "required" || o.Extensions["credProps"] != true || len(o.ExcludeCredentials) != 1 {
		t.Errorf("got %s", register)
	}
	login, _, err := party.BeginLogin()
	if err != nil || !strings.Contains(string(login), `"userVerification":"required"`) || strings.Contains(string(login), "allowCredentials") {
		t.Errorf("got %s, %v", login, err)
	}
}

func TestRegistration_ThatIsNotAsAskedIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*passkeytest.Authenticator){
		"user not verified":         func(a *passkeytest.Authenticator) { a.Flags &^= passkeytest.UserVerified },
		"user not present":          func(a *passkeytest.Authenticator) { a.Flags &^= passkeytest.UserPresent },
		"backed up, not eligible":   func(a *passkeytest.Authenticator) { a.Flags &^= passkeytest.BackupEligible },
		"another origin":            func(a *passkeytest.Authenticator) { a.Origin = "https://evil.example.org:8443" },
		"another port":              func(a *passkeytest.Authenticator) { a.Origin = "https://home.example.org" },
		"plain http":                func(a *passkeytest.Authenticator) { a.Origin = "http://home.example.org:8443" },
		"in a frame of a foreigner": func(a *passkeytest.Authenticator) { a.CrossOrigin = true },
		"another relying party":     func(a *passkeytest.Authenticator) { a.RPID = "example.org" },
	} {
		anna := newPerson(t, "anna")
		spoil(anna.Authenticator)
		if err := anna.register(t, newParty(t, origin, "")); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLogin_ThatIsNotAsAskedIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*passkeytest.Authenticator){
		"user not verified":         func(a *passkeytest.Authenticator) { a.Flags &^= passkeytest.UserVerified },
		"user not present":          func(a *passkeytest.Authenticator) { a.Flags &^= passkeytest.UserPresent },
		"backed up, not eligible":   func(a *passkeytest.Authenticator) { a.Flags &^= passkeytest.BackupEligible },
		"another origin":            func(a *passkeytest.Authenticator) { a.Origin = "https://home.example.org.evil.net:8443" },
		"another port":              func(a *passkeytest.Authenticator) { a.Origin = "https://home.example.org" },
		"in a frame of a foreigner": func(a *passkeytest.Authenticator) { a.CrossOrigin = true },
		"another relying party":     func(a *passkeytest.Authenticator) { a.RPID = "example.org" },
		"a wrong signature":         func(a *passkeytest.Authenticator) { a.BadSignature = true },
		"no user handle":            func(a *passkeytest.Authenticator) { a.Handle = []byte{} },
		"an unknown user handle":    func(a *passkeytest.Authenticator) { a.Handle = make([]byte, factor.HandleBytes) },
	} {
		party, anna := newParty(t, origin, ""), newPerson(t, "anna")
		if err := anna.register(t, party); err != nil {
			t.Fatal(err)
		}
		options, state, err := party.BeginLogin()
		if err != nil {
			t.Fatal(err)
		}
		spoil(anna.Authenticator)
		if a, err := party.FinishLogin(finder(anna), state, anna.Get(options)); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
	}
}

func TestAnswer_IsForItsOwnCeremonyOnly(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	registering, registerState, err := party.BeginRegister("Zuhause", anna.PasskeyUser)
	if err != nil {
		t.Fatal(err)
	}
	created := anna.Create(registering)
	c, err := party.FinishRegister(anna.PasskeyUser, registerState, created)
	if err != nil {
		t.Fatal(err)
	}
	anna.Passkeys = []factor.Passkey{{Credential: c}}
	login, loginState, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	_, otherState, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	_, verifyState, err := party.BeginVerify(anna.PasskeyUser)
	if err != nil {
		t.Fatal(err)
	}
	late := []byte(strings.Replace(string(loginState), `"expires":"2`, `"expires":"1`, 1))
	answer := anna.Get(login)
	for name, try := range map[string]func() error{
		"another login's": func() error { _, err := party.FinishLogin(finder(anna), otherState, answer); return err },
		"a registration's for a login": func() error {
			_, err := party.FinishLogin(finder(anna), registerState, anna.GetWith(anna.Keys[0], registering))
			return err
		},
		"a verification's for a login": func() error { _, err := party.FinishLogin(finder(anna), verifyState, answer); return err },
		"a login's for a verification": func() error { _, err := party.FinishVerify(anna.PasskeyUser, loginState, answer); return err },
		"a created credential":         func() error { _, err := party.FinishLogin(finder(anna), loginState, created); return err },
		"after five minutes":           func() error { _, err := party.FinishLogin(finder(anna), late, answer); return err },
		"no answer":                    func() error { _, err := party.FinishLogin(finder(anna), loginState, []byte(`{}`)); return err },
		"no registration": func() error {
			_, err := party.FinishRegister(anna.PasskeyUser, registerState, []byte(`{"id":"AA"}`))
			return err
		},
	} {
		if err := try(); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := party.FinishLogin(finder(anna), loginState, answer); err != nil {
		t.Errorf("the right one: %v", err)
	}
}

// TestLogin_HandleAndCredentialAreOfOneUser has two users on one authenticator.
func TestLogin_HandleAndCredentialAreOfOneUser(t *testing.T) {
	party, anna, paul := newParty(t, origin, ""), newPerson(t, "anna"), newPerson(t, "paul")
	paul.Authenticator = anna.Authenticator
	for _, p := range []*person{anna, paul} {
		if err := p.register(t, party); err != nil {
			t.Fatal(err)
		}
	}
	device := anna.Authenticator
	for name, c := range map[string]struct {
		key    int
		handle []byte
		ok     bool
	}{
		"Anna's":                              {0, nil, true},
		"Paul's":                              {1, nil, true},
		"Anna's handle and Paul's credential": {1, anna.PasskeyUser.Handle, false},
		"Paul's handle and Anna's credential": {0, paul.PasskeyUser.Handle, false},
	} {
		options, state, err := party.BeginLogin()
		if err != nil {
			t.Fatal(err)
		}
		device.Handle = c.handle
		a, err := party.FinishLogin(finder(anna, paul), state, device.GetWith(device.Keys[c.key], options))
		if c.ok && (err != nil || !bytes.Equal(a.Passkey.CredentialID, device.Keys[c.key].ID)) || !c.ok && !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
	}
	device.Handle = nil
	options, state, err := party.BeginVerify(anna.PasskeyUser)
	if err != nil {
		t.Fatal(err)
	}
	for name, handle := range map[string][]byte{"with his handle": nil, "with hers": anna.PasskeyUser.Handle, "without": {}} {
		device.Handle = handle
		if a, err := party.FinishVerify(anna.PasskeyUser, state, device.GetWith(device.Keys[1], options)); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("Paul's passkey as Anna's second step, %s: got %+v, %v", name, a, err)
		}
	}
}

func TestAnswer_ExtensionOutputsNotAskedForAreIgnored(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	anna.Extensions = map[string]any{"appid": false, "credProps": map[string]any{"rk": true}, "future": map[string]any{}}
	if err := anna.register(t, party); err != nil {
		t.Fatal(err)
	}
	options, state, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := party.FinishLogin(finder(anna), state, anna.Get(options)); err != nil {
		t.Error(err)
	}
}

func TestLogin_AChangedBackupFlagIsReported(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	anna.Flags = passkeytest.UserPresent | passkeytest.UserVerified
	if err := anna.register(t, party); err != nil {
		t.Fatal(err)
	}
	if party.Synced(anna.Passkeys[0]) {
		t.Error("a passkey that cannot be backed up is synced")
	}
	for _, changed := range []bool{true, false} {
		anna.Flags |= passkeytest.BackupEligible | passkeytest.BackupState
		options, state, err := party.BeginLogin()
		if err != nil {
			t.Fatal(err)
		}
		a, err := party.FinishLogin(finder(anna), state, anna.Get(options))
		if err != nil || a.FlagsChanged != changed || !party.Synced(a.Passkey) {
			t.Fatalf("got %+v, %v", a, err)
		}
		anna.Passkeys[0] = a.Passkey
	}
}

// TestLogin_CounterIsTheStoresToCompare: it is returned as it came, lower ones too.
func TestLogin_CounterIsTheStoresToCompare(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	anna.Count = 7
	if err := anna.register(t, party); err != nil {
		t.Fatal(err)
	}
	anna.Count = 5
	options, state, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	if a, err := party.FinishLogin(finder(anna), state, anna.Get(options)); err != nil || a.Passkey.SignCount != 5 {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestOptions_OfferNoPasskeysOfAnotherRPID(t *testing.T) {
	old, party, anna := newParty(t, origin, "example.org"), newParty(t, origin, ""), newPerson(t, "anna")
	if err := anna.register(t, old); err != nil {
		t.Fatal(err)
	}
	if anna.Passkeys[0].RPID != "example.org" {
		t.Errorf("got %+v", anna.Passkeys[0])
	}
	if _, _, err := party.BeginVerify(anna.PasskeyUser); !errors.Is(err, factor.ErrNoPasskey) {
		t.Errorf("got %v", err)
	}
	options, state, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := party.FinishLogin(finder(anna), state, anna.GetWith(anna.Keys[0], options)); !errors.Is(err, factor.ErrPasskeyFailed) {
		t.Errorf("got %v", err)
	}
}

func TestLogin_AStoreThatFailsIsNoRefusal(t *testing.T) {
	party, anna := newParty(t, origin, ""), newPerson(t, "anna")
	if err := anna.register(t, party); err != nil {
		t.Fatal(err)
	}
	options, state, err := party.BeginLogin()
	if err != nil {
		t.Fatal(err)
	}
	away := errors.New("away")
	_, err = party.FinishLogin(func([]byte) (factor.PasskeyUser, error) { return factor.PasskeyUser{}, away }, state, anna.Get(options))
	if !errors.Is(err, away) || errors.Is(err, factor.ErrPasskeyFailed) {
		t.Errorf("got %v", err)
	}
}

func TestRPID_WherePasskeysArePossible(t *testing.T) {
	for _, c := range []struct {
		url, id string
		want    string // RP ID, or ""
		err     error  // nil with "": any that is not ErrPasskeysUnavailable
	}{
		{"https://home.example.org", "", "home.example.org", nil},
		{"https://Home.Example.org:8443", "", "home.example.org", nil},
		{"https://home.example.org", "example.org", "example.org", nil},
		{"https://home.lan", "", "home.lan", nil},
		{"http://localhost:8080", "", "localhost", nil},
		{"", "", "", factor.ErrNoPublicURL},
		{"http://home.lan", "", "", factor.ErrNotHTTPS},
		{"https://192.168.1.5", "", "", factor.ErrIPAddress},
		{"https://[::1]:8443", "", "", factor.ErrIPAddress},
		{"https://home.example.org", "org", "", nil},
		{"https://home.example.org", "example.net", "", nil},
		{"https://home.example.org", "e.example.org", "", nil},
		{"https://myexample.org", "example.org", "", nil},
		{"home.example.org", "", "", nil},
	} {
		party, err := passkey.New(passkey.Options{PublicURL: c.url, RPID: c.id})
		switch {
		case c.want != "":
			if err != nil || party.ID() != c.want {
				t.Errorf("%s, %s: got %v", c.url, c.id, err)
			}
		case c.err != nil:
			if !errors.Is(err, c.err) || !errors.Is(err, factor.ErrPasskeysUnavailable) {
				t.Errorf("%s, %s: got %v", c.url, c.id, err)
			}
		case err == nil || errors.Is(err, factor.ErrPasskeysUnavailable):
			t.Errorf("%s, %s: got %v", c.url, c.id, err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	party, err := passkey.New(passkey.Options{PublicURL: origin})
	if err != nil {
		f.Fatal(err)
	}
	u := factor.PasskeyUser{Handle: make([]byte, factor.HandleBytes), Name: "anna", DisplayName: "Anna"}
	device := passkeytest.New(f, origin)
	register, registerState, registerErr := party.BeginRegister("Zuhause", u)
	login, loginState, loginErr := party.BeginLogin()
	if err := errors.Join(registerErr, loginErr); err != nil {
		f.Fatal(err)
	}
	created := device.Create(register)
	f.Add([]byte(created))
	f.Add(slices.Clone([]byte(device.GetWith(device.Keys[0], login))))
	f.Add([]byte(`{}`))
	other := bytes.Clone(registerState)
	other = bytes.Replace(other, []byte(`"challenge":"`), []byte(`"challenge":"x`), 1)
	f.Fuzz(func(t *testing.T, answer []byte) {
		if _, err := party.FinishRegister(u, other, answer); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("registered: %v", err)
		}
		if _, err := party.FinishLogin(finder(), loginState, answer); !errors.Is(err, factor.ErrPasskeyFailed) {
			t.Errorf("logged in: %v", err)
		}
	})
}
