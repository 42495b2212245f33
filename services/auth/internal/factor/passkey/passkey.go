// Package passkey implements factor.RelyingParty on go-webauthn, with one origin, user
// verification always, and no attestation.
//
// Three of its decisions differ from the library's defaults. Extension outputs that were
// not asked for are ignored, as Safari always returns appid. A changed flag "backup
// eligible" is accepted, as iCloud Keychain and KeePassXC change it; Assertion reports
// it. The signature counter is compared by the store, in the step that writes it.
package passkey

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/pforte/pforte/services/auth/internal/factor"
)

// timeout is how long a client may take to answer.
const timeout = 5 * time.Minute

// Options configure a relying party.
type Options struct {
	// PublicURL is the origin of the pages that use passkeys, "https://host[:port]", or
	// "http://localhost[:port]".
	PublicURL string
	// RPID is the host of PublicURL or a parent domain of it, to which the passkeys
	// belong; empty: the host.
	RPID string
}

// maxAnswer bounds an answer, in bytes, and by that a key of RSA, which its user may choose: to verify a signature by
// one of 44 KB takes seconds.
const maxAnswer = 8 << 10

var errAnswerTooLarge = errors.New("answer is too large")

type relyingParty struct{ *webauthn.WebAuthn }

// New checks the options and returns a relying party. factor.ErrNoPublicURL, ErrNotHTTPS
// and ErrIPAddress where there can be no passkeys.
func New(o Options) (factor.RelyingParty, error) {
	if o.PublicURL == "" {
		return nil, factor.ErrNoPublicURL
	}
	origin, err := url.Parse(o.PublicURL)
	if err != nil || origin.Host == "" {
		return nil, errors.New("PUBLIC_URL is not an origin")
	}
	host := strings.ToLower(origin.Hostname())
	switch {
	case net.ParseIP(host) != nil:
		return nil, factor.ErrIPAddress
	case origin.Scheme != "https" && host != "localhost":
		return nil, factor.ErrNotHTTPS
	}
	id := cmp.Or(strings.ToLower(o.RPID), host)
	if id != host && (!strings.HasSuffix(host, "."+id) || !strings.Contains(id, ".")) {
		return nil, fmt.Errorf("PASSKEY_RP_ID: %s is neither the host of PUBLIC_URL nor a parent domain of it", id)
	}
	limit := webauthn.TimeoutConfig{Enforce: true, Timeout: timeout, TimeoutUVD: timeout}
	w, err := webauthn.New(&webauthn.Config{
		RPID: id, RPOrigins: []string{origin.Scheme + "://" + strings.ToLower(origin.Host)},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			RequireResidentKey: protocol.ResidentKeyRequired(), ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired,
		},
		Timeouts:                          webauthn.TimeoutsConfig{Login: limit, Registration: limit},
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
	if err != nil {
		return nil, fmt.Errorf("relying party: %w", err)
	}
	return relyingParty{w}, nil
}

func (r relyingParty) ID() string { return r.Config.RPID }

func (r relyingParty) BeginRegister(household string, u factor.PasskeyUser) (json.RawMessage, []byte, error) {
	known, err := r.user(u)
	if err != nil {
		return nil, nil, err
	}
	options, state, err := r.BeginRegistration(known, webauthn.WithRegistrationRelyingPartyName(household),
		webauthn.WithExclusions(webauthn.Credentials(known.credentials).CredentialDescriptors()),
		func(o *protocol.PublicKeyCredentialCreationOptions) error {
			o.Extensions.CredProps = true // Firefox for Android saves no passkey without it
			return nil
		})
	return begun(options, state, err)
}

func (r relyingParty) FinishRegister(
	u factor.PasskeyUser, state []byte, answer json.RawMessage,
) (factor.Credential, error) {
	known, err := r.user(u)
	if err != nil {
		return factor.Credential{}, err
	}
	var begun webauthn.SessionData
	if err := json.Unmarshal(state, &begun); err != nil {
		return factor.Credential{}, fmt.Errorf("decode state of ceremony: %w", err)
	}
	if len(answer) > maxAnswer {
		return factor.Credential{}, failed(errAnswerTooLarge)
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return factor.Credential{}, failed(err)
	}
	created, err := r.CreateCredential(known, begun, parsed)
	if err != nil {
		return factor.Credential{}, failed(err)
	}
	return r.encode(created)
}

func (r relyingParty) BeginLogin() (json.RawMessage, []byte, error) {
	options, state, err := r.BeginDiscoverableLogin()
	return begun(options, state, err)
}

func (r relyingParty) FinishLogin(
	find func(handle []byte) (factor.PasskeyUser, error), state []byte, answer json.RawMessage,
) (factor.Assertion, error) {
	return r.finish(state, answer, func(handle []byte) (factor.PasskeyUser, error) {
		if len(handle) != factor.HandleBytes {
			return factor.PasskeyUser{}, fmt.Errorf("%w: no user handle", factor.ErrPasskeyFailed)
		}
		u, err := find(handle)
		if errors.Is(err, factor.ErrNoPasskey) {
			err = fmt.Errorf("%w: unknown user handle", factor.ErrPasskeyFailed)
		}
		return u, err
	}, func(
		u webauthn.User, begun webauthn.SessionData, parsed *protocol.ParsedCredentialAssertionData,
	) (*webauthn.Credential, error) {
		return r.ValidateDiscoverableLogin(func(_, _ []byte) (webauthn.User, error) { return u, nil }, begun, parsed)
	})
}

func (r relyingParty) BeginVerify(u factor.PasskeyUser) (json.RawMessage, []byte, error) {
	known, err := r.user(u)
	if err != nil {
		return nil, nil, err
	}
	if len(known.credentials) == 0 {
		return nil, nil, factor.ErrNoPasskey
	}
	options, state, err := r.WebAuthn.BeginLogin(known)
	return begun(options, state, err)
}

func (r relyingParty) FinishVerify(
	u factor.PasskeyUser, state []byte, answer json.RawMessage,
) (factor.Assertion, error) {
	return r.finish(state, answer, func([]byte) (factor.PasskeyUser, error) { return u, nil }, r.ValidateLogin)
}

// finish checks an answer with the passkeys of the user that find returns for its handle.
func (r relyingParty) finish(
	state []byte, answer json.RawMessage, find func(handle []byte) (factor.PasskeyUser, error),
	validate func(
		webauthn.User, webauthn.SessionData, *protocol.ParsedCredentialAssertionData,
	) (*webauthn.Credential, error),
) (factor.Assertion, error) {
	var begun webauthn.SessionData
	if err := json.Unmarshal(state, &begun); err != nil {
		return factor.Assertion{}, fmt.Errorf("decode state of ceremony: %w", err)
	}
	if len(answer) > maxAnswer {
		return factor.Assertion{}, failed(errAnswerTooLarge)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return factor.Assertion{}, failed(err)
	}
	found, err := find(parsed.Response.UserHandle)
	if err != nil {
		return factor.Assertion{}, err
	}
	known, err := r.user(found)
	if err != nil {
		return factor.Assertion{}, err
	}
	var a factor.Assertion
	for i := range known.credentials {
		if c := &known.credentials[i]; bytes.Equal(c.ID, parsed.RawID) {
			eligible := parsed.Response.AuthenticatorData.Flags.HasBackupEligible()
			a.FlagsChanged = c.Flags.BackupEligible != eligible
			c.Flags.BackupEligible = eligible // validate refuses another one than at the registration
			a.Passkey = known.passkeys[i]
		}
	}
	used, err := validate(known, begun, parsed)
	if err != nil {
		return factor.Assertion{}, failed(err)
	}
	used.Authenticator.CloneWarning = false // the store compares the counters
	used.Authenticator.SignCount = parsed.Response.AuthenticatorData.Counter
	if a.Passkey.Credential, err = r.encode(used); err != nil {
		return factor.Assertion{}, err
	}
	return a, nil
}

func (r relyingParty) Synced(p factor.Passkey) bool {
	var c webauthn.Credential
	return json.Unmarshal([]byte(p.Record), &c) == nil && c.Flags.BackupEligible
}

func (r relyingParty) encode(c *webauthn.Credential) (factor.Credential, error) {
	record, err := json.Marshal(c)
	if err != nil {
		return factor.Credential{}, fmt.Errorf("encode credential: %w", err)
	}
	return factor.Credential{
		CredentialID: c.ID, RPID: r.Config.RPID, Record: string(record), SignCount: c.Authenticator.SignCount,
	}, nil
}

// begun encodes what a ceremony begins with.
func begun(options any, state *webauthn.SessionData, err error) (json.RawMessage, []byte, error) {
	if err != nil {
		return nil, nil, fmt.Errorf("begin ceremony: %w", err)
	}
	encoded, optionsErr := json.Marshal(options)
	data, stateErr := json.Marshal(state)
	if err := errors.Join(optionsErr, stateErr); err != nil {
		return nil, nil, fmt.Errorf("encode ceremony: %w", err)
	}
	return encoded, data, nil
}

// failed returns factor.ErrPasskeyFailed with the text of the library's error, for the log.
func failed(err error) error {
	return fmt.Errorf("%w: %s", factor.ErrPasskeyFailed, err) //nolint:errorlint // no caller needs the library's errors
}

// user is a factor.PasskeyUser with the passkeys of this relying party.
type user struct {
	factor.PasskeyUser
	passkeys    []factor.Passkey
	credentials []webauthn.Credential // the Records of passkeys, decoded, in the same order
}

func (r relyingParty) user(of factor.PasskeyUser) (user, error) {
	u := user{PasskeyUser: of}
	for _, p := range of.Passkeys {
		if p.RPID != r.Config.RPID {
			continue // the client would not find it
		}
		var c webauthn.Credential
		if err := json.Unmarshal([]byte(p.Record), &c); err != nil {
			return user{}, fmt.Errorf("decode passkey %d: %w", p.ID, err)
		}
		u.passkeys, u.credentials = append(u.passkeys, p), append(u.credentials, c)
	}
	return u, nil
}

func (u user) WebAuthnID() []byte                         { return u.Handle }
func (u user) WebAuthnName() string                       { return u.Name }
func (u user) WebAuthnDisplayName() string                { return u.DisplayName }
func (u user) WebAuthnCredentials() []webauthn.Credential { return u.credentials }
