package pages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pforte/pforte/services/auth/internal/session"
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
	Save, Cancel       string
	Add, Remove        string
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

	BadForm, TooLarge, ForeignPage, SendAgain, Limited, AgainDiffers, Missing, LoginTooLong                                         string
	InvalidCredentials, WrongPassword, RevocationPending, PasswordTooShort, PasswordCommon, PasswordTooLong                         string
	Busy, BadUsername, UsernameReserved, UsernameFormer, UsernameAgain, UsernameTaken, BadDisplayName, DisplayNameTooLong, BadColor string
	LastAdmin, NotAdmin, NoUser, NoPage, Internal, SessionGone                                                                      string
	ToStart                                                                                                                         string

	AgainPlain, SetupTitle, SetupLead, HouseholdName, HouseholdHint, SetupButton, UsernameHint string
	SetupNeeded, SetupAgain                                                                    string
	JoinTitle, JoinLeadF, JoinLead, JoinButton, JoinLoggedInF, ResetTitle                      string
	ResetLeadF, ForgotTitle, ForgotLead, ForgotButton, ToLogin, LinkInvalid                    string
	NoInvite, BadHousehold, UseOwnPage, OwnAccount, ConfirmDiffers, Notices                    string
	NoticesRead, RequestsF, SeeMembers, Members, MembersLead, LastLogin                        string
	HasSecond, NoSecond, ResetAsked, ResetLink, ResetLinkLead, ResetLinkButton                 string
	EndSessions, EndSessionsLead, EndSessionsButton, Delete, DeleteLead, DeleteConfirmF        string
	DeleteButton, LinkTitle, LinkOnce, LinkUntil, LinkCopy                                     string
	LinkRelative, LinkShare, ShareInviteF, ShareResetF, LinkQR, LinkScan                       string
	Finished, Invites, InvitesLead, InviteNew, InviteUsernameHint, InviteButton                string
	InvitesOpen, InvitesNone, Revoke, AnyName, Until, By                                       string
	Audit, AuditLead, Person, Event, From, To                                                  string
	Filter, FilterOff, All, Older, CSV, NoEntries                                              string
	Operator, System, Anonymous, TimesF, DoneJoined, DoneReset                                 string
	DoneForgot, DoneSessions, DoneDeleted, DoneRevoked                                         string

	SecondTitle, SecondLead, SecondLeadOther, SecondPasskey, Code, CodeHint                 string
	RecoveryHint, RecoveryUse, RecoveryCode, Continue, PasskeyFailed, PasskeyExists         string
	ReauthTitle, ReauthLead, ReauthButton, DutyTitle, DutyLead, DutyNow                     string
	DutyLater, Devices, DevicesLead, ThisDevice, UnknownDevice, DeviceOnF                   string
	LoggedInAt, LastUsed, EndSession, EndOthers, KnownBrowsers, KnownBrowsersLead           string
	FirstSeen, LastSeen, Forget, SecondFactor, SecondFactorLead, On                         string
	Off, OnByApp, OnByPasskey, OffText, CodesLeftF, AppSetup                                string
	AppLead, AppBegin, AppQR, AppStep1, AppStep2, AppStep3                                  string
	AppByHand, AppAgain, TurnOn, TurnOff, TurnOffLead, NotConfigured, CodesUnavailable      string
	ByPasskey, ByPasskeyLead, FrontendNote, Codes, CodesOn, CodesLead                       string
	CodesKept, CodesRenew, CodesRenewLead, Passkeys, PasskeysLead, PasskeysHTTPS            string
	PasskeysIP, PasskeysAddress, PasskeysNone, PasskeyAdd, PasskeyName, PasskeyNameHint     string
	PasskeyScript, PasskeySynced, PasskeyBound, PasskeyForeign, PasskeyCreated, PasskeyUsed string
	PasskeyNameWrong, NoPasskeyText, Change, Rename, Rules, RulesLead                       string
	DutyRule, DutyRuleLead, DutyOff, DutyOn, WithoutSecond, WithoutNone                     string
	ServerState, StateCodes, Possible, NoDataKey, NoHTTPS, ResetFactor                      string
	ResetFactorLead, ResetFactorButton, ReauthRequired, InvalidCode, TooManyCodes           string
	ClockAheadF, ClockBehindF, AlreadyEnabled, NoPendingSetup, NotEnabled, FactorRequired   string
	WrongReauth, DoneExpired, DoneSession, DoneOthers                                       string
	DoneForgotten, DoneFactorOff, DoneFactorReset, DonePasskeyAdded, DonePasskeyRemoved     string

	NoLogin, PasskeyUnused, Retention, RetentionF, RetentionForever, LinkHelp string
	DoneResetPasskeys, DonePasskeysLeft                                       string

	Applications, ApplicationsLead, TileApplications, ApplicationNew, ApplicationName          string
	ApplicationNameHint, Description, DescriptionHint, Address, AddressHint, Rule, RuleLogin   string
	RuleAdmin, RuleGroupF, Slug, SlugHint, AskSecondFactor, AskSecondFactorHint, TakeTokens    string
	TakeTokensHint, Position, PositionHint, ApplicationChange, ApplicationRemove               string
	ApplicationRemoveLead, Proxy, ProxyLead, ProxyLeadHost, ProxyRoutes, NeedsPublicURL        string
	Groups, GroupsLead, TileGroups, GroupNew, GroupName, GroupNameHint, GroupSlugHint          string
	GroupEmpty, GroupMembersLead, GroupOpens, GroupRemove, GroupRemoveLead, Tokens, TokensLead string
	TileTokens, TokenNew, TokenName, TokenNameHint, TokenApps, TokenOnlyRead, TokenReadOnly    string
	TokenDays, DaysF, TokenForEver, TokenCreate, TokenOnceF, TokenUse, TokenAsPassword         string
	TokenHeaders, TokenUnused, TokenRevoked, TokenExpired, TokenOpensNothing, TokensRevoke     string
	TokensNoApps, TokensLeftF, TokensSee, BadSlug, SlugTaken, BadName, BadDescription, BadURL  string
	URLTaken, BadRule, BadPosition, NoApplication, NoGroup, GroupUsed, TooMany, BadScope       string
	TooManyTokens, NoToken, TokenActive, DoneAppAdded, DoneAppRemoved, DoneGroupAdded          string
	DoneGroupRemoved, DoneTokenRevoked, DoneTokensRevoked, DoneTokenRemoved, DoneTokensLeft    string
	DoneResetTokens                                                                            string

	RefusedTitle, RefusedF, AppUnknown, AppUnknownHelp, AppDenied, AppDeniedHelp              string
	AppSecondFactor, AppSecondFactorHelp, CookiesTitle, CookiesBlocked, CookiesHelp, TryAgain string
	HandOverTitle, HandOverFailed                                                             string

	// Factors are how a session was proved, in words, by session.Factor.
	Factors map[string]string

	// Events are the names of events of the audit in words, by name.
	Events map[string]string
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
	case "joined":
		return t.DoneJoined
	case "reset":
		return t.DoneReset
	case "reset-passkeys":
		return t.DoneResetPasskeys
	case passkeysLeft:
		return t.DonePasskeysLeft
	case "forgot":
		return t.DoneForgot
	case "sessions":
		return t.DoneSessions
	case "deleted":
		return t.DoneDeleted
	case "revoked":
		return t.DoneRevoked
	case "expired":
		return t.DoneExpired
	case "session":
		return t.DoneSession
	case "others":
		return t.DoneOthers
	case "forgotten":
		return t.DoneForgotten
	case "factor-off":
		return t.DoneFactorOff
	case "factor-reset":
		return t.DoneFactorReset
	case "passkey-added":
		return t.DonePasskeyAdded
	case "passkey-removed":
		return t.DonePasskeyRemoved
	case "app-added":
		return t.DoneAppAdded
	case "app-removed":
		return t.DoneAppRemoved
	case "group-added":
		return t.DoneGroupAdded
	case "group-removed":
		return t.DoneGroupRemoved
	case "token-revoked":
		return t.DoneTokenRevoked
	case "tokens-revoked":
		return t.DoneTokensRevoked
	case "token-removed":
		return t.DoneTokenRemoved
	case "tokens-left":
		return t.DoneTokensLeft
	case "reset-tokens":
		return t.DoneResetTokens
	}
	return ""
}

// event returns the name of an event in words, or, of one without words, as it is.
func (t *texts) event(name string) string { return cmp.Or(t.Events[name], name) }

// eventNames returns the names of all events with words, in the order of the words.
func (t *texts) eventNames() []string {
	return slices.SortedFunc(maps.Keys(t.Events), func(a, b string) int { return strings.Compare(t.Events[a], t.Events[b]) })
}

// deviceName returns browser and system of a User-Agent in words.
func (t *texts) deviceName(userAgent string) string {
	switch browser, system := session.BrowserOf(userAgent); {
	case browser != "" && system != "":
		return fmt.Sprintf(t.DeviceOnF, browser, system)
	case browser != "" || system != "":
		return browser + system
	default:
		return t.UnknownDevice
	}
}

// skew returns in words by how much the clock of a device is ahead, or behind if negative.
func (t *texts) skew(ahead time.Duration) string {
	format := t.ClockAheadF
	if ahead < 0 {
		format, ahead = t.ClockBehindF, -ahead
	}
	return fmt.Sprintf(format, max(1, int(ahead.Round(time.Minute).Minutes())))
}
