package pages

import (
	"fmt"
	"time"
)

// texts are all words of the pages in one language. A field that ends with F is a format
// for fmt.Sprintf.
type texts struct {
	Lang, Name         string // code and name of the language
	OtherLang, Other   string // of the language that the footer offers
	OtherLanguageLabel string
	Skip, Navigation   string
	FaultPrefix, Error string
	FaultTitle         string
	Never              string
	Optional           string
	Save, Cancel, Back string
	Add, Remove        string
	Yes, No            string
	Today, Yesterday   string // formats of a time of day
	Tomorrow           string
	DateF              string // format of day, month, year and time of day
	Months             [12]string

	Home, Account, Administration      string
	AccountNavigation, AdminNavigation string

	LoginTitle, LoginLead, Username, PasswordField, LoginButton, ForgotLink, PasskeyLogin, Or string
	Logout, LogoutLead, LogoutButton                                                          string

	Start, HelloF, StartLead                       string
	TileProfile, TilePassword, TileDevices         string
	TileSecond, TilePasskeys                       string
	TileMembers, TileInvites, TileAudit, TileRules string

	Profile, ProfileLead, DisplayName, DisplayNameHint, Color, ColorOwn, ColorHex, ColorHexHint string
	Colors                                                                                      [12]string
	MemberSince, Role, RoleAdmin, RoleMember                                                    string

	Password, PasswordLead, CurrentPassword, NewPassword, AgainPassword, NewPasswordHint, PasswordButton string

	DoneLogout, DonePassword, DoneProfile string

	BadForm, TooLarge, ForeignPage, SendAgain, Limited, AgainDiffers, Missing, LoginTooLong string
	InvalidCredentials, WrongPassword, RevocationPending, PasswordTooShort, PasswordTooLong string
	Busy, BadUsername, UsernameTaken, BadDisplayName, DisplayNameTooLong, BadColor          string
	LastAdmin, NotAdmin, NoUser, NoPage, Internal, SessionGone                              string
	ToStart                                                                                 string
}

// moment returns a time in words, seen from now.
func (t *texts) moment(at, now time.Time) string {
	day := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	clock := at.Format("15:04")
	switch day(at).Sub(day(now)) {
	case 0:
		return fmt.Sprintf(t.Today, clock)
	case -24 * time.Hour:
		return fmt.Sprintf(t.Yesterday, clock)
	case 24 * time.Hour:
		return fmt.Sprintf(t.Tomorrow, clock)
	}
	return fmt.Sprintf(t.DateF, at.Day(), t.Months[at.Month()-1], at.Year(), clock)
}

// done returns what the parameter of a redirect says has just been done, or "".
func (t *texts) done(what string) string {
	switch what {
	case "logout":
		return t.DoneLogout
	case "password":
		return t.DonePassword
	case "profile":
		return t.DoneProfile
	}
	return ""
}
