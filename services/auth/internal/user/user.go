package user

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// Role is what a user may do.
type Role string

// The roles. An Admin also manages users, applications and the household.
const (
	Admin  Role = "admin"
	Member Role = "member"
)

// DefaultAvatarColor is the colour of a user, or an application, that is created without one. Links and pages take
// ColorOf instead.
const DefaultAvatarColor = "#007AFF"

// New are the fields of a user to create; the store sets the others. The password hash
// is stored as it is.
type New struct {
	Username     string
	DisplayName  string
	PasswordHash string
	AvatarColor  string
	Role         Role
}

// User is a stored user.
type User struct {
	ID int64 // set by the store or an import, which alone may use that of a deleted user again
	New
	CreatedAt time.Time // UTC, whole seconds
	// SessionStamp is the stamp that a session of the user must have, unless it is KeptSession. The store sets a new,
	// random one for a new user and to end all sessions, or all but one; users of an earlier version have none until
	// then.
	SessionStamp string
	// KeptSession is the key of the session that the last new stamp kept; empty: none.
	KeptSession string
	// SecondFactor reports that a login by password needs a second factor, too.
	SecondFactor bool
	// DisabledAt is when an admin or a command closed the account, zero: it is not closed by either; EndsAt is when a
	// guest's account ends, zero: it does not.
	DisabledAt, EndsAt time.Time
	Picture            string // SHA-256 of the picture, hexadecimal; empty: there is none
}

// NoPassword is the PasswordHash of a user without one, who logs in by passkeys. No password matches it.
const NoPassword = "!"

// HasPassword reports whether the user has a password.
func (u New) HasPassword() bool { return u.PasswordHash != NoPassword }

// Protected reports whether no password alone opens the account.
func (u User) Protected() bool { return u.SecondFactor || !u.HasPassword() }

// Closed reports whether the account opens nothing: it is disabled, or its time as a guest is over.
func (u User) Closed(now time.Time) bool {
	return !u.DisabledAt.IsZero() || !u.EndsAt.IsZero() && !now.Before(u.EndsAt)
}

// Details is a user as admins see them.
type Details struct {
	User
	Groups       []string // slugs, sorted
	Passkeys     int
	LastLoginAt  time.Time // zero: the audit has no login
	ResetAskedAt time.Time // of an open request for a new password; else zero
	// Subject is the identifier by which applications know the user: a random UUID, empty until it is first needed.
	Subject string
	Email   Email
}

// Email is the address of a user.
type Email struct {
	Address string // ASCII; empty: there is none
	// ConfirmedAt is when an admin or a command confirmed it; zero: it is not confirmed, and may be another person's.
	ConfirmedAt time.Time
}

// Confirmed reports whether an admin or a command has confirmed the address.
func (e Email) Confirmed() bool { return !e.ConfirmedAt.IsZero() }

// Change are the fields of a user to change; nil leaves one as it is.
type Change struct {
	DisplayName *string
	AvatarColor *string
	Role        *Role
	Groups      *[]string // slugs of all groups of the user
	// Joins are the slugs of groups that the user joins (true) or leaves (false).
	Joins    map[string]bool
	Username *string
	EndsAt   *time.Time // zero: the account has no end
	Email    *string    // "" removes it
	// ConfirmsEmail confirms Email, even if it stays the same. Only an admin or the Operator may set it.
	ConfirmsEmail bool
}

// Household are the household's own settings.
type Household struct {
	Name  string // empty: not set
	Named bool   // Name was chosen; account.Service.Household sets it, and a store leaves it false
	// RequireSecondFactor forbids users to turn their second factor off.
	RequireSecondFactor bool
	FirstStepsDone      bool      // an admin has hidden the first steps
	LastBackup          time.Time // when the program backup made its last archive; zero: none is known
}

// MaxHouseholdName is how long a household's name may be, in code points.
const MaxHouseholdName = 64

// Admits reports whether a session with the stamp and key is the user's and has not
// been revoked, and the account is not closed. The session store may have lost its revocation.
func (u User) Admits(stamp, key string, now time.Time) bool {
	return !u.Closed(now) && (stamp == u.SessionStamp || u.KeptSession != "" && key == u.KeptSession)
}

// NewSubject returns a random UUID (RFC 9562, version 4).
func NewSubject() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// NewSessionStamp returns a random stamp.
func NewSessionStamp() string { return rand.Text() }

// Sort orders users by display name in German collation (umlauts beside their vowels,
// case last), then by id.
func Sort(users []User) {
	collator, buffer := collate.New(language.German), collate.Buffer{}
	keys := make(map[int64]string, len(users))
	for _, u := range users {
		keys[u.ID] = string(collator.KeyFromString(&buffer, u.DisplayName))
		buffer.Reset()
	}
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(cmp.Compare(keys[a.ID], keys[b.ID]), cmp.Compare(a.ID, b.ID))
	})
}

// Lengths in code points (AUTH-1.2, AUTH-1.3, AUTH-1.7).
const (
	MaxUsername    = 64
	MaxDisplayName = 128
)

// Errors of the fields of a user, and of the name of the household.
var (
	ErrUsername           = errors.New("username is not 3 to 64 letters, digits, dots, hyphens or underscores")
	ErrUsernameReserved   = errors.New("username is reserved, or begins with a hyphen")
	ErrDisplayName        = errors.New("display name is blank or has invisible characters")
	ErrDisplayNameTooLong = errors.New("display name has more than 128 characters")
	ErrHouseholdName      = errors.New("household name has more than 64 characters or invisible ones")
	ErrAvatarColor        = errors.New("avatar colour is not #RGB or #RRGGBB")
	ErrRole               = errors.New("role is neither admin nor member")
	ErrEmail              = errors.New("e-mail address is not local@domain in ASCII, of at most 254 characters")
	ErrEndDate            = errors.New("last day of a guest is not YYYY-MM-DD from today on")
)

// EndOf returns when an account ends whose last day is a date (YYYY-MM-DD) in a time zone; the zero time for "".
// ErrEndDate for what is no date, and for one before today.
func EndOf(lastDay string, now time.Time, zone *time.Location) (time.Time, error) {
	if lastDay == "" {
		return time.Time{}, nil
	}
	day, err := time.ParseInLocation(time.DateOnly, lastDay, zone)
	if err != nil {
		return time.Time{}, ErrEndDate
	}
	end := day.AddDate(0, 0, 1)
	if !now.Before(end) {
		return time.Time{}, ErrEndDate
	}
	return end, nil
}

// LastDay returns the last day of an account in a time zone, as EndOf reads it; "" where it has no end.
func (u User) LastDay(zone *time.Location) string {
	if u.EndsAt.IsZero() {
		return ""
	}
	return u.EndsAt.Add(-time.Second).In(zone).Format(time.DateOnly)
}

var (
	usernamePattern = regexp.MustCompile(`\A[A-Za-z0-9._-]{3,64}\z`)
	emailPattern    = regexp.MustCompile(`\A[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+)*` +
		`@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\z`)
	colorPattern = regexp.MustCompile(`\A#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})\z`)
)

// CheckUsername returns ErrUsername unless name is 3 to 64 ASCII letters, digits, dots,
// hyphens and underscores.
func CheckUsername(name string) error {
	if !usernamePattern.MatchString(name) {
		return ErrUsername
	}
	return nil
}

// Lengths of an e-mail address in bytes (RFC 5321, section 4.5.3.1).
const (
	maxEmail      = 254
	maxEmailLocal = 64
)

// CleanEmail returns an e-mail address without surrounding white space; it may be empty. It is a dot-atom and a domain
// with a dot (RFC 5322), in ASCII. ErrEmail, also for what ends in ".invalid": such addresses are made for users
// without one.
func CleanEmail(address string) (string, error) {
	address = strings.TrimSpace(address)
	if address == "" {
		return "", nil
	}
	local, domain, _ := strings.Cut(address, "@")
	if len(address) > maxEmail || len(local) > maxEmailLocal || !emailPattern.MatchString(address) ||
		strings.HasSuffix(strings.ToLower(domain), ".invalid") {
		return "", ErrEmail
	}
	return address, nil
}

// reserved are the names by which applications know their administrator, an account of their own, everybody or nobody,
// in lower case and without dots, hyphens and underscores.
var reserved = strings.Fields(`admin administrator adm root superuser sysadmin system sys operator owner moderator
	manager supervisor nobody anonymous guest user member users members admins everyone all public self me
	service daemon support security abuse postmaster hostmaster webmaster mailer mailerdaemon noreply
	www wwwdata http backup pforte auth api test default null none undefined`)

// administrators are words that no part of a chosen name may be. Dots, hyphens and underscores separate the parts,
// as in "gitea_admin".
var administrators = []string{"admin", "administrator", "superuser", "sysadmin"}

// CheckChosenUsername returns ErrUsernameReserved for a name that a person may not choose for themselves: applications
// may know another by it. An admin may choose it for a user.
func CheckChosenUsername(name string) error {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("._-", r) })
	ofAdministrator := func(part string) bool { return slices.Contains(administrators, part) }
	if slices.Contains(reserved, strings.Join(parts, "")) || slices.ContainsFunc(parts, ofAdministrator) {
		return ErrUsernameReserved
	}
	return CheckNoOption(name)
}

// CheckNoOption returns ErrUsernameReserved for a name that a command would read as an option. It is not for users who
// are created over the API or by a command: there a username is any that CheckUsername accepts.
func CheckNoOption(name string) error {
	if strings.HasPrefix(name, "-") {
		return ErrUsernameReserved
	}
	return nil
}

// ProposeUsername returns a username for a display name: its first word in the letters a to z, or "" where that is
// not one that a person may choose.
func ProposeUsername(displayName string) string {
	words := strings.Fields(umlauts.Replace(strings.ToLower(displayName)))
	if len(words) == 0 {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		if r < 'a' || 'z' < r {
			return -1 // also the marks that NFD takes off letters
		}
		return r
	}, norm.NFD.String(words[0]))
	if CheckUsername(name) != nil || CheckChosenUsername(name) != nil {
		return ""
	}
	return name
}

var umlauts = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss")

// CleanDisplayName returns the name without surrounding white space. ErrDisplayNameTooLong for one over 128 code
// points; ErrDisplayName for one without a visible character, with an invisible one, or that is no UTF-8.
func CleanDisplayName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if utf8.RuneCountInString(name) > MaxDisplayName {
		return "", ErrDisplayNameTooLong
	}
	isVisible := func(r rune) bool { // the pattern of Braille without a dot is a symbol
		return r != '\u2800' && unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	}
	if !utf8.ValidString(name) || hasInvisible(name) || !strings.ContainsFunc(name, isVisible) {
		return "", ErrDisplayName
	}
	return name, nil
}

// CleanHouseholdName returns the name of a household without surrounding white space; it may be empty.
// ErrHouseholdName.
func CleanHouseholdName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if utf8.RuneCountInString(name) > MaxHouseholdName || !utf8.ValidString(name) || hasInvisible(name) {
		return "", ErrHouseholdName
	}
	return name, nil
}

// AvatarColors are the colours to choose from.
var AvatarColors = [...]string{
	"#007AFF", "#32ADE6", "#00A3A3", "#34C759", "#6B8E23", "#FFCC00", "#FF9500", "#FF3B30", "#FF2D78", "#AF52DE",
	"#5856D6", "#8E8E93",
}

// ColorOf returns one of AvatarColors for a name, always the same, for who or what has chosen none.
func ColorOf(name string) string {
	sum := 0
	for _, c := range []byte(name) {
		sum += int(c)
	}
	return AvatarColors[sum%len(AvatarColors)]
}

// CheckAvatarColor returns ErrAvatarColor unless color is #RGB or #RRGGBB.
func CheckAvatarColor(color string) error {
	if !colorPattern.MatchString(color) {
		return ErrAvatarColor
	}
	return nil
}

// ParseRole returns the role of that exact name, else ErrRole.
func ParseRole(name string) (Role, error) {
	switch role := Role(name); role {
	case Admin, Member:
		return role, nil
	default:
		return "", ErrRole
	}
}

// MaxID is the highest id that can be imported. Ids are numbers in JSON, which browsers
// represent exactly up to twice this: the other half is for ids set later.
const MaxID = 1 << 52

// Errors of the fields of a Record that a New does not have.
var (
	ErrID        = errors.New("id is not a whole number from 1 to 4503599627370496")
	ErrCreatedAt = errors.New("created_at is neither RFC 3339, nor YYYY-MM-DD HH:MM:SS in UTC, nor Unix time")
)

// Record is a user of another application: unchecked text. A missing field is empty.
type Record struct {
	Where                                                                 string // place in the file: "line 3"
	ID, Username, DisplayName, PasswordHash, AvatarColor, Role, CreatedAt string
}

// ParseID returns the id in a text, from 1 to MaxID, or 0 for an empty one; else ErrID.
func ParseID(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 || id > MaxID || text[0] == '+' {
		return 0, ErrID
	}
	return id, nil
}

// maxSeconds separates seconds since 1970 from milliseconds: it is in the year 5138, or in March 1973.
const maxSeconds = 1e11

// timeLayouts are RFC 3339 with or without a fraction of a second, and SQLite's
// CURRENT_TIMESTAMP, which is UTC.
var timeLayouts = []string{time.RFC3339, time.DateTime}

// ParseCreatedAt returns the instant in a text, in whole seconds, or the zero time for an empty one; else
// ErrCreatedAt.
func ParseCreatedAt(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Truncate(time.Second), nil
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n <= 0 || n >= maxSeconds*1000:
		return time.Time{}, ErrCreatedAt
	case n >= maxSeconds:
		n /= 1000
	}
	return time.Unix(n, 0).UTC(), nil
}
