package pages

// english are the texts in English.
var english = texts{ //nolint:gosec // words, no credentials
	Lang: "en", Name: "English", OtherLang: "de", Other: "Deutsch", OtherLanguageLabel: "Language",
	Skip: "Skip to content", Navigation: "Main menu",
	FaultPrefix: "Error:", Error: "That did not work", FaultTitle: "Please check",
	Never: "never", Optional: "optional",
	Save: "Save", Cancel: "Cancel", Back: "Back", Add: "Add", Remove: "Remove", Yes: "Yes", No: "No",
	Today: "today, %s", Yesterday: "yesterday, %s", Tomorrow: "tomorrow, %s", DateF: "%d %s %d, %s",
	Months: [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"},

	Home: "Home", Account: "Account", Administration: "Administration",
	AccountNavigation: "Account", AdminNavigation: "Administration",

	LoginTitle: "Log in", LoginLead: "Welcome back.", Username: "Username", PasswordField: "Password", LoginButton: "Log in",
	ForgotLink: "Forgot your password?", PasskeyLogin: "Log in with a passkey", Or: "or",
	Logout: "Log out", LogoutLead: "This device is logged out. Other devices stay logged in.", LogoutButton: "Log out now",

	Start: "Home", HelloF: "Hello, %s", StartLead: "Everything about your account in one place.",
	TileProfile: "Name and colour", TilePassword: "Change the password", TileDevices: "Where this account is logged in",
	TileSecond: "Protection by a code at login", TilePasskeys: "Log in with fingerprint, face or key",
	TileMembers: "Who belongs to the household", TileInvites: "Bring somebody into the household", TileAudit: "What happened when", TileRules: "Rules for everybody",

	Profile: "Profile", ProfileLead: "This is how others in the household see the account.", DisplayName: "Display name", DisplayNameHint: "For example the first name.",
	Color: "Colour", ColorOwn: "Own colour", ColorHex: "Own colour as a number", ColorHexHint: "Form: #RRGGBB, for example #3A7D5C.",
	Colors:      [12]string{"Blue", "Sky", "Teal", "Green", "Moss", "Yellow", "Orange", "Red", "Pink", "Violet", "Indigo", "Grey"},
	MemberSince: "Member since", Role: "Role", RoleAdmin: "Administrator", RoleMember: "Member",

	Password: "Password", PasswordLead: "With the new password only this device stays logged in; all others are logged out.",
	CurrentPassword: "Current password", NewPassword: "New password", AgainPassword: "New password again",
	NewPasswordHint: "At least 8 characters. A sentence is easier to remember than a word with symbols.", PasswordButton: "Change password",

	DoneLogout: "Logged out.", DonePassword: "The password is changed. All other devices are logged out.", DoneProfile: "Saved.",

	BadForm: "The form arrived incomplete.", TooLarge: "The request is too large.", ForeignPage: "This request comes from another site.",
	SendAgain: "Please send it again.", Limited: "Too many failed attempts. Please try again later.",
	AgainDiffers: "The two passwords differ.", Missing: "Please fill in all required fields.", LoginTooLong: "Username or password is too long.",
	InvalidCredentials: "Username or password is wrong.", WrongPassword: "The current password is wrong.",
	RevocationPending: "The change is saved. Existing sessions end as soon as the session store answers again.",
	PasswordTooShort:  "The password must have at least 8 characters.", PasswordTooLong: "The password must have at most 1024 characters.",
	Busy:        "The service is busy. Please try again in a moment.",
	BadUsername: "The username must have 3 to 64 characters and only letters, digits, dots, hyphens and underscores.", UsernameTaken: "This username is already taken.",
	BadDisplayName: "The display name must not be empty and must have no control characters.", DisplayNameTooLong: "The display name must have at most 128 characters.",
	BadColor: "The colour must have the form #RGB or #RRGGBB.", LastAdmin: "The last administrator must stay.",
	NotAdmin: "This needs an administrator.", NoUser: "User not found.", NoPage: "There is no such page.",
	Internal: "Internal error. Please try again later.", SessionGone: "The login has expired. What you typed is still there after you log in, except passwords.",
	ToStart: "To the home page",
}
