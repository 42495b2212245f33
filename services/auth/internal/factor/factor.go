package factor

import "time"

// State is what a user has, other than a password, to prove who they are.
type State struct {
	Enabled bool // a login by password needs a second factor, too
	// Sealed is the sealed TOTP secret; nil: none.
	Sealed []byte
	// Confirmed reports that the secret was confirmed by a code and counts.
	Confirmed bool
	LastStep  int64 // the step of the last TOTP code accepted
	Recovery  int   // recovery codes left
	Passkeys  int
}

// Pending reports whether a set-up of TOTP has begun and is not confirmed.
func (s State) Pending() bool { return s.Sealed != nil && !s.Confirmed }

// Browser is one that a user has logged in with.
type Browser struct {
	Hash        string // of its cookie or, without one, of its label; not a credential
	Label       string // browser and system, in words; may be empty
	FirstSeenAt time.Time
	LastSeenAt  time.Time
}

// MaxBrowsers is how many browsers are known of a user; another one replaces the one
// that was used least recently.
const MaxBrowsers = 50

// Sealed is a sealed TOTP secret and whose it is.
type Sealed struct {
	UserID int64
	Secret []byte
}
