package pages

// german are the texts in German.
var german = texts{ //nolint:gosec // words, no credentials
	Lang: "de", Name: "Deutsch", OtherLang: "en", Other: "English", OtherLanguageLabel: "Sprache",
	Skip: "Zum Inhalt", Navigation: "Hauptmenü",
	FaultPrefix: "Fehler:", Error: "Das hat nicht geklappt", FaultTitle: "Bitte prüfen",
	Never: "noch nie", Optional: "freiwillig",
	Save: "Speichern", Cancel: "Abbrechen", Back: "Zurück", Add: "Hinzufügen", Remove: "Entfernen", Yes: "Ja", No: "Nein",
	Today: "heute, %s", Yesterday: "gestern, %s", Tomorrow: "morgen, %s", DateF: "%d. %s %d, %s",
	Months: [12]string{"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember"},

	Home: "Start", Account: "Konto", Administration: "Verwaltung",
	AccountNavigation: "Konto", AdminNavigation: "Verwaltung",

	LoginTitle: "Anmelden", LoginLead: "Willkommen zurück.", Username: "Benutzername", PasswordField: "Passwort", LoginButton: "Anmelden",
	ForgotLink: "Passwort vergessen?", PasskeyLogin: "Mit Passkey anmelden", Or: "oder",
	Logout: "Abmelden", LogoutLead: "Die Anmeldung auf diesem Gerät endet. Andere Geräte bleiben angemeldet.", LogoutButton: "Jetzt abmelden",

	Start: "Start", HelloF: "Hallo, %s", StartLead: "Alles rund um das eigene Konto an einem Ort.",
	TileProfile: "Name und Farbe", TilePassword: "Passwort ändern", TileDevices: "Wo dieses Konto angemeldet ist",
	TileSecond: "Schutz mit einem Code beim Anmelden", TilePasskeys: "Anmelden mit Fingerabdruck, Gesicht oder Schlüssel",
	TileMembers: "Wer zum Haushalt gehört", TileInvites: "Jemanden in den Haushalt holen", TileAudit: "Was wann geschehen ist", TileRules: "Regeln für alle",

	Profile: "Profil", ProfileLead: "So erscheint das Konto für die anderen im Haushalt.", DisplayName: "Anzeigename", DisplayNameHint: "Zum Beispiel der Vorname.",
	Color: "Farbe", ColorOwn: "Eigene Farbe", ColorHex: "Eigene Farbe als Zahl", ColorHexHint: "Form: #RRGGBB, zum Beispiel #3A7D5C.",
	Colors:      [12]string{"Blau", "Himmelblau", "Türkis", "Grün", "Moos", "Gelb", "Orange", "Rot", "Rosa", "Violett", "Indigo", "Grau"},
	MemberSince: "Dabei seit", Role: "Rolle", RoleAdmin: "Verwaltung", RoleMember: "Mitglied",

	Password: "Passwort", PasswordLead: "Mit dem neuen Passwort bleibt nur dieses Gerät angemeldet, alle anderen werden abgemeldet.",
	CurrentPassword: "Aktuelles Passwort", NewPassword: "Neues Passwort", AgainPassword: "Neues Passwort noch einmal",
	NewPasswordHint: "Mindestens 8 Zeichen. Ein Satz ist leichter zu merken als ein Wort mit Sonderzeichen.", PasswordButton: "Passwort ändern",

	DoneLogout: "Abgemeldet.", DonePassword: "Das Passwort ist geändert. Alle anderen Geräte sind abgemeldet.", DoneProfile: "Gespeichert.",

	BadForm: "Das Formular ist unvollständig angekommen.", TooLarge: "Die Anfrage ist zu groß.", ForeignPage: "Diese Anfrage kommt von einer fremden Seite.",
	SendAgain: "Bitte noch einmal senden.", Limited: "Zu viele fehlgeschlagene Versuche. Bitte später erneut versuchen.",
	AgainDiffers: "Die beiden Passwörter sind nicht gleich.", Missing: "Bitte alle Pflichtfelder ausfüllen.", LoginTooLong: "Benutzername oder Passwort ist zu lang.",
	InvalidCredentials: "Benutzername oder Passwort ist falsch.", WrongPassword: "Das aktuelle Passwort ist falsch.",
	RevocationPending: "Die Änderung ist gespeichert. Bestehende Sitzungen enden, sobald der Sitzungsspeicher wieder antwortet.",
	PasswordTooShort:  "Das Passwort muss mindestens 8 Zeichen lang sein.", PasswordTooLong: "Das Passwort darf höchstens 1024 Zeichen lang sein.",
	Busy:        "Der Dienst ist gerade ausgelastet. Bitte gleich erneut versuchen.",
	BadUsername: "Der Benutzername muss 3 bis 64 Zeichen lang sein und darf nur Buchstaben, Ziffern, Punkt, Bindestrich und Unterstrich enthalten.", UsernameTaken: "Dieser Benutzername ist bereits vergeben.",
	BadDisplayName: "Der Anzeigename darf nicht leer sein und keine Steuerzeichen enthalten.", DisplayNameTooLong: "Der Anzeigename darf höchstens 128 Zeichen lang sein.",
	BadColor: "Die Farbe muss die Form #RGB oder #RRGGBB haben.", LastAdmin: "Der letzte Administrator muss bleiben.",
	NotAdmin: "Dafür sind Administratorrechte nötig.", NoUser: "Benutzer nicht gefunden.", NoPage: "Diese Seite gibt es nicht.",
	Internal: "Interner Fehler. Bitte später erneut versuchen.", SessionGone: "Die Anmeldung ist abgelaufen. Nach dem Anmelden ist das Ausgefüllte noch da, Passwörter ausgenommen.",
	ToStart: "Zur Startseite",
}
