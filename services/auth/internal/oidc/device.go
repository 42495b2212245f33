package oidc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Limits of a device authorization (RFC 8628, sections 3.2 and 3.5).
const (
	DeviceLifetime = 10 * time.Minute
	// DeviceInterval is how long a device waits between two questions, and by how much longer after one that comes
	// too soon.
	DeviceInterval = 5 * time.Second
)

// GrantDevice is the grant_type of a device code.
const GrantDevice = "urn:ietf:params:oauth:grant-type:device_code"

// A user code is userCodeLength of userCodeLetters, which have no vowels, so that no word comes out (RFC 8628,
// section 6.1). There are 20^8 user codes (34 bits); each lasts for minutes, and the guesses of each user are
// counted.
const (
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeLength  = 8
)

// Errors of device authorizations. Of these, only ErrPending and ErrSlowDown have the device ask again.
var (
	ErrDeviceOff = errors.New("client may not log users in by a code on another device")
	ErrNoDevice  = errors.New("code of a device is unknown, was used or has expired")
	ErrPending   = errors.New("user has not answered yet")
	ErrSlowDown  = errors.New("device asks too soon")
)

// Device is a request of a device without a browser, or without a keyboard, for a login that its user allows in the
// browser of another device.
type Device struct {
	ClientID      string
	ApplicationID int64
	Scopes        []string
	Secret        string `json:"-"` // hash of what the device proves itself by, which a store keeps beside the rest
	ProvedBy      string `json:"-"` // login whose user has proved for it who they are; empty: none has
}

// DeviceCodes are what a device gets: one for itself, and one that its user types.
type DeviceCodes struct{ Device, User string }

// StartDevice begins the login of a user at a client whose device shows a code. ErrDeviceOff, ErrScope.
func (s *Service) StartDevice(ctx context.Context, c Client, scope, ip string) (DeviceCodes, error) {
	if !c.Device {
		s.note(ctx, c, Refusal{Reason: ErrDeviceOff.Error(), IP: ip})
		return DeviceCodes{}, ErrDeviceOff
	}
	granted := knownScopes(scope)
	if !slices.Contains(granted, ScopeOpenID) {
		return DeviceCodes{}, ErrScope
	}
	secret := secrets.New()
	d := Device{
		ClientID: c.ID, ApplicationID: c.ApplicationID, Scopes: granted, Secret: secrets.Hash(secret),
	}
	const tries = 5 // of codes that another device has
	for range tries {
		code := newUserCode()
		free, err := s.o.ShortLived.PutDevice(ctx, secrets.Hash(code), d, c.Public)
		if err != nil {
			return DeviceCodes{}, err
		}
		if free {
			return DeviceCodes{Device: secrets.Hash(code) + "." + secret, User: shownUserCode(code)}, nil
		}
	}
	return DeviceCodes{}, errors.New("no code for a device is free")
}

// newUserCode returns a random user code. Each letter has the same chance.
func newUserCode() string {
	code := make([]byte, 0, userCodeLength)
	var b [1]byte
	for len(code) < userCodeLength {
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
		if n := int(b[0]); n < 256-256%len(userCodeLetters) {
			code = append(code, userCodeLetters[n%len(userCodeLetters)])
		}
	}
	return string(code)
}

// shownUserCode returns a code with a hyphen in its middle.
func shownUserCode(code string) string {
	return code[:userCodeLength/2] + "-" + code[userCodeLength/2:]
}

// ShownUserCode returns a code that people typed in the form in which the device shows it. ok reports whether it can
// be one.
func ShownUserCode(typed string) (shown string, ok bool) {
	code, ok := userCode(typed)
	if !ok {
		return "", false
	}
	return shownUserCode(code), true
}

// userCode reads a code as people type it, in any case, with spaces and hyphens. ok reports whether it can be one.
func userCode(typed string) (code string, ok bool) {
	const longest = 64
	if len(typed) > longest {
		return "", false
	}
	var letters []byte
	for _, b := range []byte(typed) {
		if b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		switch {
		case b == '-' || b == ' ':
		case strings.IndexByte(userCodeLetters, b) >= 0:
			letters = append(letters, b)
		default:
			return "", false
		}
	}
	return string(letters), len(letters) == userCodeLength
}

// WaitingDevice is a device whose user has not answered yet.
type WaitingDevice struct {
	Code       string // as the device shows it
	Slug, Name string // of the application
	Scopes     []string
	Client     Client
	provedBy   string
	hash       string // of the code
}

// WaitingDevice returns the device that shows a code, which people typed. ErrNoDevice and the errors of Off.
func (s *Service) WaitingDevice(ctx context.Context, typed string) (WaitingDevice, error) {
	st, err := s.on(ctx)
	if err != nil {
		return WaitingDevice{}, err
	}
	code, ok := userCode(typed)
	if !ok {
		return WaitingDevice{}, ErrNoDevice
	}
	d, err := s.o.ShortLived.Device(ctx, secrets.Hash(code))
	if err != nil {
		return WaitingDevice{}, err
	}
	c, known := st.clients[d.ClientID]
	if !known || c.ApplicationID != d.ApplicationID || !c.Device { // the client has changed meanwhile
		return WaitingDevice{}, ErrNoDevice
	}
	return WaitingDevice{
		Code: shownUserCode(code), Slug: c.Slug, Name: c.Name, Scopes: d.Scopes, Client: c, provedBy: d.ProvedBy,
		hash: secrets.Hash(code),
	}, nil
}

// ProveFirst reports whether a user has to prove who they are before they are asked about a device: where an
// application is below the portal's own origin, and they have not done so for this device. A page of that application
// could send the form that allows the device, but not the proof. No login and no proof for something else counts: the
// application may have begun the device's request, and would wait for any.
func (s *Service) ProveFirst(ctx context.Context, w WaitingDevice, by session.Session) (bool, error) {
	paths, err := s.o.HasPaths(ctx)
	return paths && (w.provedBy == "" || w.provedBy != by.Login), err
}

// ProvedForDevice notes that the user of a session has just proved who they are for the device that shows a code. An
// error of the store is logged, and they are asked for a proof again.
func (s *Service) ProvedForDevice(ctx context.Context, typed string, by session.Session) {
	code, ok := userCode(typed)
	if !ok {
		return
	}
	err := s.o.ShortLived.ProveDevice(ctx, secrets.Hash(code), by.Login)
	if err != nil && !errors.Is(err, ErrNoDevice) {
		s.o.Log.WarnContext(ctx, "note a proof for a device failed", "error", err)
	}
}

// AllowDevice lets a device log its user in. The kind is Back: it may; ToReauth: the user has to prove who they are
// first, because ProveFirst says so, or by a second factor; ToLogin: since u was read, their account is gone or closed,
// their sessions were ended, or the application is gone; NoFactor: they have to set up a second factor; NoAccess: the
// rule does not admit them.
// ErrNoDevice, also where the device has an answer.
func (s *Service) AllowDevice(
	ctx context.Context, w WaitingDevice, by session.Session, u user.User,
) (StepKind, error) {
	if first, err := s.ProveFirst(ctx, w, by); first || err != nil {
		return ToReauth, err
	}
	p, kind, err := s.admitted(ctx, by, u, w.Client)
	if err != nil || kind != Back {
		return kind, err
	}
	code := s.newCode(w.Client, p, by, w.Scopes)
	return Back, s.o.ShortLived.AnswerDevice(ctx, w.hash, &code)
}

// DenyDevice refuses a device. ErrNoDevice, also where the device has an answer.
func (s *Service) DenyDevice(ctx context.Context, w WaitingDevice) error {
	return s.o.ShortLived.AnswerDevice(ctx, w.hash, nil)
}

// admitted decides whether a client's rule admits a user now. The kind is Back: it does; ToLogin: since u was read,
// their account is gone or closed, their sessions were ended, or the application is gone; ToReauth: they have to prove
// a second factor; NoFactor: they have to set one up; NoAccess: it does not, which is recorded.
func (s *Service) admitted(ctx context.Context, by session.Session, u user.User, c Client) (Person, StepKind, error) {
	p, secondFactor, err := s.o.Grants.Person(ctx, by.UserID, c.ApplicationID)
	switch {
	case errors.Is(err, user.ErrNotFound): // meanwhile
		return p, ToLogin, nil
	case errors.Is(err, ErrNotAdmitted):
		s.o.Audit.RecordCounted(ctx, audit.Event{
			Name: "oidc_denied", SubjectID: p.User.ID, SubjectName: p.User.Username,
			Detail: map[string]any{"app": c.Slug},
		})
		return p, NoAccess, nil
	case err != nil:
		return p, Back, err
	case p.User.SessionStamp != u.SessionStamp: // u admitted the session, and p may not
		return p, ToLogin, nil
	case !secondFactor || by.Factor.Second():
		return p, Back, nil
	case u.SecondFactor:
		return p, ToReauth, nil
	}
	return p, NoFactor, nil
}

var deviceCodePattern = regexp.MustCompile(`\A([0-9a-f]{64})\.([A-Za-z0-9_-]{1,64})\z`)

// ExchangeDevice gives a client tokens for a device code as soon as its user has allowed it. A device that has not got
// the answer, and asks again after the interval, gets tokens of the same grant, for RefreshGrace. ErrPending,
// ErrSlowDown, ErrDenied, ErrNoDevice, ErrCodeClient, ErrCodeMissing, ErrNotAdmitted. With any other error, of a store
// or of signing, the device may ask again with the same code.
func (s *Service) ExchangeDevice(ctx context.Context, c Client, deviceCode, ip string) (Tokens, error) {
	if deviceCode == "" {
		return Tokens{}, ErrCodeMissing
	}
	parts := deviceCodePattern.FindStringSubmatch(deviceCode)
	if parts == nil {
		return Tokens{}, ErrNoDevice
	}
	hash := parts[1]
	taken, err := s.o.ShortLived.PollDevice(ctx, hash, secrets.Hash(parts[2]), c.ID, s.o.Now())
	if err != nil {
		return Tokens{}, err
	}
	if taken.ApplicationID != c.ApplicationID || !c.Device { // the client has changed since
		s.note(ctx, c, Refusal{Reason: ErrCodeClient.Error(), IP: ip})
		return Tokens{}, ErrCodeClient
	}
	s.asked(ctx, c)
	return s.redeem(ctx, taken, func(ctx context.Context, again Code) error {
		if err := s.o.ShortLived.GiveDeviceBack(ctx, hash, again); err != nil {
			return fmt.Errorf("device: %w", err)
		}
		return nil
	})
}
