package factor

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what authenticator apps compute (RFC 6238, section 1.2)
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Errors of second factors.
var (
	// ErrInvalidCode: the code is wrong, used up, of another time, or of a factor that is gone.
	ErrInvalidCode = errors.New("code is wrong or used up")
	// ErrAlreadyEnabled: there is a confirmed secret, or a second factor.
	ErrAlreadyEnabled = errors.New("second factor is set up already")
	// ErrNoPendingSetup: no secret waits to be confirmed, or it is another one by now.
	ErrNoPendingSetup = errors.New("no set-up of a second factor has begun")
	// ErrNotEnabled: a login by password needs no second factor.
	ErrNotEnabled = errors.New("second factor is not set up")
	// ErrNotConfigured: there is no key to seal secrets with.
	ErrNotConfigured = errors.New("DATA_KEY is not set")
)

const (
	period  = 30 // seconds of a step (RFC 6238, section 4.1)
	digits  = 6
	modulus = 1_000_000 // 10 to the power of digits
	// window is how many steps a clock may be off by (RFC 6238, section 5.2).
	window = 1
	// skewWindow is how many steps SkewOf looks back and ahead: 10 minutes.
	skewWindow = 20
	// secretBytes is the length of a secret, as RFC 4226, section 4 recommends.
	secretBytes = 20
)

// NewSecret returns a random TOTP secret.
func NewSecret() []byte {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

// SecretText returns the secret as authenticator apps take it: base32 without padding.
func SecretText(secret []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// URI returns the content of the QR code for authenticator apps (Google's Key Uri Format), in whose issuer a hyphen
// stands for a colon, which the format forbids there.
func URI(issuer, account string, secret []byte) string {
	issuer = strings.ReplaceAll(issuer, ":", "-")
	return "otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(account) +
		"?secret=" + SecretText(secret) + "&issuer=" + strings.ReplaceAll(url.QueryEscape(issuer), "+", "%20")
}

// Code returns the TOTP code of a step: SHA-1, 6 digits (RFC 6238, section 4.2).
func Code(secret []byte, step int64) string {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac := hmac.New(sha1.New, secret)
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%0*d", digits, (binary.BigEndian.Uint32(sum[offset:])&0x7fffffff)%modulus)
}

// StepOf returns the TOTP step of an instant: how many whole periods of 30 seconds have passed
// since 1970 (RFC 6238, section 4.2).
func StepOf(t time.Time) int64 { return t.Unix() / period }

// MatchTOTP returns the step that has the code, among those after last and at most one step from
// now. ErrInvalidCode.
func MatchTOTP(secret []byte, code string, last int64, now time.Time) (step int64, err error) {
	return match(secret, code, max(last+1, StepOf(now)-window), StepOf(now)+window)
}

// SkewOf returns by how much the clock that made a code is ahead, or behind if negative: at least a step, and at most
// 10 minutes; false: no step in that time has the code. It is for an explanation only: such a code is not accepted.
func SkewOf(secret []byte, code string, now time.Time) (time.Duration, bool) {
	at := StepOf(now)
	for off := int64(1); off <= skewWindow; off++ {
		for _, step := range []int64{at - off, at + off} {
			if found, err := match(secret, code, step, step); err == nil {
				return time.Duration(found-at) * period * time.Second, true
			}
		}
	}
	return 0, false
}

func match(secret []byte, code string, from, to int64) (int64, error) {
	for step := from; step <= to; step++ {
		if subtle.ConstantTimeCompare([]byte(Code(secret, step)), []byte(code)) == 1 {
			return step, nil
		}
	}
	return 0, ErrInvalidCode
}

// CleanCode returns a typed code without spaces, tabs and hyphens.
func CleanCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '\t' || r == '\u00a0' {
			return -1
		}
		return r
	}, typed)
}

// IsTOTP reports whether a clean code has the form of a TOTP code; every other is taken
// for a recovery code.
func IsTOTP(code string) bool {
	return len(code) == digits && strings.Trim(code, "0123456789") == ""
}
