package web

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/oidc"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/picture"
	"github.com/pforte/pforte/services/auth/internal/policy"
	"github.com/pforte/pforte/services/auth/internal/ratelimit"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Errors of requests to the API and to pages.
var (
	ErrMalformed = errors.New("body is not the expected JSON object or form")
	ErrCSRF      = errors.New("CSRF token missing or wrong")
	ErrOrigin    = errors.New("WebSocket opened by a page of another origin")
	ErrForwarded = errors.New("X-Forwarded-Method, X-Forwarded-Uri or role is missing or malformed")
	ErrUnhealthy = errors.New("a store does not answer")
	ErrSetupCode = errors.New("set-up link is invalid or expired")
	ErrQuery     = errors.New("query of the audit is malformed")
	// ErrLimited is returned for a request that is refused because of those before it.
	ErrLimited = errors.New("too many failed attempts")
	// ErrPasswordsDiffer is returned where a new password was typed twice and not alike, ErrConfirmation where what
	// was typed is not the name of the user to delete.
	ErrPasswordsDiffer = errors.New("the two passwords differ")
	ErrConfirmation    = errors.New("the typed name is not the user's")
	// ErrNotRegistered is returned instead of factor.ErrPasskeyFailed for a new passkey, and for a form that should
	// have come with one.
	ErrNotRegistered = errors.New("new passkey was not accepted")
	// ErrUnknownPasskey is returned where the request names a passkey that the user does not have.
	ErrUnknownPasskey = errors.New("unknown passkey")
	// ErrUnknownGroup is returned where the group that a request is about does not exist.
	ErrUnknownGroup = errors.New("unknown group")
	// ErrUnknownMembers is returned where the body names members of a group of whom one does not exist.
	ErrUnknownMembers = errors.New("unknown members")
	// ErrSubject is returned for a token of a user who does not exist, or of another user where the
	// caller is no admin.
	ErrSubject = errors.New("app token for a user who is another or does not exist")
	// The guard refuses a request to an application with the next four, with ErrForwarded, and with errors of policy
	// and token. Pages refuse a form with ErrForeignPage, too, and so do Counted, CountedPasskey and CountSignIn a
	// request.
	ErrUnknownApp  = errors.New("no such application, or not at this host")
	ErrNotLoggedIn = errors.New("request to an application without a session")
	ErrReadOnly    = errors.New("app token only reads")
	ErrForeignPage = errors.New("request of a foreign page")
	// ErrNoPicture is returned for an application's picture without a file.
	ErrNoPicture = errors.New("file is missing")
	// ErrAfterLogout is what a page returns instead of oidc.ErrAddress for an address that a logout may lead to.
	ErrAfterLogout = errors.New("address after a logout cannot be led back to")
	// ErrQueueFull is returned for a proxy's question for the routes, of which there are too many at once.
	ErrQueueFull = errors.New("too many questions for the routes at once")
)

// Failure is the answer to an error.
type Failure struct {
	Err    error
	Status int
	Reason string // for programs; empty: the body has none
	// Page is the key of the text that pages show; empty: they show an internal error (OnPage).
	Page string
	// Field is the field of the form that is wrong; empty: none is; noForm: the form is not shown again.
	Field  string
	German string // text of the API for the user (AUTH-9.1); empty: the API does not return the error
}

// noForm is the Field of an error with which a page does not show its form again.
const noForm = "-"

// ShowsForm reports whether a page shows the form again that failed.
func (f Failure) ShowsForm() bool { return f.Field != noForm }

// OnPage returns what a page shows: an internal error where f has no text for pages.
func (f Failure) OnPage() Failure {
	if f.Page == "" {
		return internal
	}
	return f
}

// Sentinel implements service.Failure.
func (f Failure) Sentinel() error { return f.Err }

// failures is the table from errors to answers of the API and of pages. An error that it does not list is a 500 with a
// fixed text, so that nothing internal leaks.
var failures = []Failure{
	row(ErrMalformed, http.StatusBadRequest, "", "BadForm", noForm, "Die Anfrage ist kein gültiges JSON-Objekt."),
	row(service.ErrBodyRead, http.StatusBadRequest, "", "BadForm", noForm,
		"Die Anfrage ist kein gültiges JSON-Objekt."),
	row(ErrForwarded, http.StatusBadRequest, "", "", "",
		"Die Angaben zur weitergeleiteten Anfrage fehlen oder sind ungültig."),
	row(account.ErrMissing, http.StatusBadRequest, "", "Missing", "", "Bitte alle Pflichtfelder ausfüllen."),
	row(account.ErrTooLong, http.StatusBadRequest, "", "LoginTooLong", "", "Benutzername oder Passwort ist zu lang."),
	row(people.ErrOwnAccount, http.StatusBadRequest, "", "OwnAccount", "",
		"Das eigene Konto kann nicht gelöscht werden."),
	row(ErrConfirmation, http.StatusBadRequest, "", "ConfirmDiffers", "confirm", ""),
	row(password.ErrTooShort, http.StatusBadRequest, "", "PasswordTooShort", "password",
		"Das Passwort muss mindestens 8 Zeichen lang sein."),
	row(password.ErrTooLong, http.StatusBadRequest, "", "PasswordTooLong", "password",
		"Das Passwort darf höchstens 1024 Zeichen lang sein."),
	row(ErrPasswordsDiffer, http.StatusBadRequest, "", "AgainDiffers", "again", ""),
	row(user.ErrUsername, http.StatusBadRequest, "", "BadUsername", "username",
		"Der Benutzername muss 3 bis 64 Zeichen lang sein und darf nur Buchstaben, Ziffern, Punkt, Bindestrich "+
			"und Unterstrich enthalten."),
	row(user.ErrDisplayName, http.StatusBadRequest, "", "BadDisplayName", "display_name",
		"Der Anzeigename darf nicht leer sein und keine Steuerzeichen enthalten."),
	row(user.ErrDisplayNameTooLong, http.StatusBadRequest, "", "DisplayNameTooLong", "display_name",
		"Der Anzeigename darf höchstens 128 Zeichen lang sein."),
	row(user.ErrEndDate, http.StatusBadRequest, "last_day", "BadEndDate", "last_day",
		"Der letzte Tag muss die Form JJJJ-MM-TT haben und darf nicht vergangen sein."),
	row(user.ErrEmail, http.StatusBadRequest, "email", "BadEmail", "email",
		"Die E-Mail-Adresse muss die Form name@beispiel.de haben, ohne Umlaute."),
	row(user.ErrEmailTaken, http.StatusConflict, "email_taken", "EmailTaken", "email",
		"Diese E-Mail-Adresse gehört schon einem anderen Mitglied."),
	row(user.ErrGuestAdmin, http.StatusBadRequest, "guest_admin", "GuestAdmin", "last_day",
		"Ein Administrator kann kein Gast sein."),
	row(picture.ErrFormat, http.StatusBadRequest, "", "PictureFormat", "picture", ""),
	row(picture.ErrTooLarge, http.StatusBadRequest, "", "PictureTooLarge", "picture", ""),
	row(user.ErrAvatarColor, http.StatusBadRequest, "", "BadColor", "hex",
		"Die Farbe muss die Form #RGB oder #RRGGBB haben."),
	row(user.ErrRole, http.StatusBadRequest, "", "BadForm", "", "Die Rolle muss admin oder member sein."),
	row(user.ErrLastAdmin, http.StatusBadRequest, "last_admin", "LastAdmin", "role",
		"Der letzte Administrator muss bleiben."),
	row(session.ErrNotFound, http.StatusUnauthorized, "", "", "", "Nicht angemeldet."),
	row(account.ErrInvalidCredentials, http.StatusUnauthorized, "", "InvalidCredentials", "",
		"Benutzername oder Passwort ist falsch."),
	row(account.ErrClosed, http.StatusForbidden, "account_closed", "AccountClosed", "",
		"Dieses Konto ist deaktiviert oder abgelaufen."),
	row(account.ErrWrongPassword, http.StatusUnauthorized, "", "WrongPassword", "current",
		"Das aktuelle Passwort ist falsch."),
	row(user.ErrNotAdmin, http.StatusForbidden, "", "NotAdmin", noForm, "Dafür sind Administratorrechte nötig."),
	row(ErrCSRF, http.StatusForbidden, "", "SendAgain", "", "Das CSRF-Token fehlt oder ist ungültig."),
	row(ErrOrigin, http.StatusForbidden, "", "", "", "Diese Verbindung wurde von einer fremden Seite geöffnet."),
	row(user.ErrNotFound, http.StatusNotFound, "", "NoUser", noForm, "Benutzer nicht gefunden."),
	row(service.ErrNoRoute, http.StatusNotFound, "", "NoPage", noForm, "Nicht gefunden."),
	row(service.ErrWrongMethod, http.StatusMethodNotAllowed, "", "", "", "Diese Methode ist hier nicht erlaubt."),
	row(user.ErrUsernameTaken, http.StatusConflict, "", "UsernameTaken", "username",
		"Dieser Benutzername ist bereits vergeben."),
	row(service.ErrBodyTooLarge, http.StatusRequestEntityTooLarge, "", "TooLarge", noForm, "Die Anfrage ist zu groß."),
	row(service.ErrMediaType, http.StatusUnsupportedMediaType, "", "", "", "Die Anfrage muss application/json sein."),
	row(ErrLimited, http.StatusTooManyRequests, "", "Limited", "",
		"Zu viele fehlgeschlagene Versuche. Bitte später erneut versuchen."),
	row(password.ErrBusy, http.StatusServiceUnavailable, "", "Busy", "",
		"Der Dienst ist gerade ausgelastet. Bitte gleich erneut versuchen."),
	row(ErrQueueFull, http.StatusServiceUnavailable, "", "", "",
		"Der Dienst ist gerade ausgelastet. Bitte gleich erneut versuchen."),
	row(account.ErrPending, http.StatusInternalServerError, "", "RevocationPending", "",
		"Die Änderung ist gespeichert. Bestehende Sitzungen enden, sobald der Sitzungsspeicher wieder antwortet."),
	row(ErrUnhealthy, http.StatusServiceUnavailable, "", "", "", "Der Dienst ist gerade nicht bereit."),
	row(ErrQuery, http.StatusBadRequest, "query", "", "", "Die Auswahl der Einträge ist ungültig."),
	row(account.ErrReauthRequired, http.StatusForbidden, "reauth_required", "", "",
		"Für diese Änderung ist eine erneute Bestätigung nötig: /pforte/reauth"),
	row(user.ErrHouseholdName, http.StatusBadRequest, "household", "BadHousehold", "household",
		"Der Name des Haushalts darf höchstens 64 Zeichen lang sein und keine Steuerzeichen enthalten."),
	row(people.ErrResetLinkOnly, http.StatusBadRequest, "reset_link_only", "", "",
		"Ein Passwort setzt nur die Person selbst. Bitte einen Link erstellen."),
	row(account.ErrUseOwnPage, http.StatusBadRequest, "own_account", "UseOwnPage", "",
		"Für das eigene Konto bitte die Kontoseite verwenden."),
	row(password.ErrCommon, http.StatusBadRequest, "common_password", "PasswordCommon", "password",
		"Dieses Passwort ist zu bekannt. Bitte ein anderes wählen."),
	row(user.ErrUsernameReserved, http.StatusBadRequest, "username_reserved", "UsernameReserved", "username",
		"Dieser Benutzername ist nicht frei wählbar, oder er beginnt mit einem Bindestrich. Bitte einen anderen "+
			"nehmen."),
	row(user.ErrUsernameFormer, http.StatusConflict, "username_former", "UsernameFormer", "username",
		"Diesen Benutzernamen hatte schon ein anderes Mitglied. Bitte einen anderen nehmen."),
	row(link.ErrInvalid, http.StatusBadRequest, "invalid_token", "LinkInvalid", noForm,
		"Der Link ist ungültig oder abgelaufen."),
	row(ErrSetupCode, http.StatusForbidden, "setup_code", "", "", "Der Einrichtungslink ist ungültig oder abgelaufen."),
	row(link.ErrNotFound, http.StatusNotFound, "not_found", "NoInvite", "", "Einladung nicht gefunden."),
	row(account.ErrNoPendingLogin, http.StatusUnauthorized, "no_pending_login", "", "",
		"Keine laufende Anmeldung. Bitte neu anmelden."),
	row(factor.ErrRequired, http.StatusForbidden, "required", "FactorRequired", "",
		"Der Haushalt verlangt einen zweiten Faktor. Der letzte kann nicht entfernt werden."),
	row(factor.ErrLastPasskey, http.StatusConflict, "last_passkey", "LastPasskey", "",
		"Ohne Passwort ist das der letzte Zugang. Bitte zuerst ein Passwort oder einen anderen Passkey einrichten."),
	row(factor.ErrPasskeysUnavailable, http.StatusConflict, "passkeys_unavailable", "PasskeysHTTPS", "",
		"Passkeys brauchen eine Adresse mit https."),
	row(factor.ErrPasskeyExists, http.StatusConflict, "passkey_exists", "", "",
		"Dieser Passkey ist bereits eingetragen."),
	row(factor.ErrTooManyPasskeys, http.StatusConflict, "too_many_passkeys", "", "",
		"Mehr Passkeys sind nicht möglich. Bitte zuerst einen entfernen."),
	row(factor.ErrPasskeyFailed, http.StatusUnauthorized, "passkey_failed", "", "", "Der Passkey wurde nicht erkannt."),
	row(ErrNotRegistered, http.StatusBadRequest, "passkey_failed", "PasskeyFailed", "",
		"Der Passkey wurde nicht erkannt."),
	row(account.ErrPasskeyName, http.StatusBadRequest, "passkey_name", "PasskeyNameWrong", "",
		"Der Name darf höchstens 64 Zeichen lang sein und keine Steuerzeichen enthalten."),
	row(ErrUnknownPasskey, http.StatusNotFound, "not_found", "NoPasskeyText", "", "Passkey nicht gefunden."),
	row(user.ErrNotEmpty, http.StatusNotFound, "", "", "", "Nicht gefunden."),
	row(account.ErrWrongCode, http.StatusBadRequest, "invalid_code", "InvalidCode", "code", invalidCode),
	row(factor.ErrInvalidCode, http.StatusUnauthorized, "invalid_code", "InvalidCode", "code", invalidCode),
	row(account.ErrTooManyCodes, http.StatusTooManyRequests, "", "TooManyCodes", "code",
		"Zu viele falsche Codes. Bitte später erneut versuchen oder einen Passkey verwenden."),
	row(account.ErrTooManyTries, http.StatusTooManyRequests, "", "Limited", "",
		"Zu viele fehlgeschlagene Versuche. Bitte später erneut versuchen."),
	row(account.ErrReauthPassword, http.StatusUnauthorized, "wrong_password", "WrongReauth", "password",
		"Das Passwort ist falsch."),
	row(account.ErrNoSession, http.StatusNotFound, "not_found", "", "", "Sitzung nicht gefunden."),
	row(factor.ErrAlreadyEnabled, http.StatusConflict, "already_enabled", "AlreadyEnabled", "",
		"Der zweite Faktor ist bereits eingerichtet."),
	row(factor.ErrNoPendingSetup, http.StatusConflict, "no_pending_setup", "NoPendingSetup", "",
		"Es wurde noch keine Einrichtung begonnen."),
	row(factor.ErrNotEnabled, http.StatusConflict, "not_enabled", "NotEnabled", "",
		"Der zweite Faktor ist nicht eingerichtet."),
	row(factor.ErrNotConfigured, http.StatusConflict, "not_configured", "NotConfigured", "",
		"Codes sind auf diesem Server nicht eingerichtet. Passkeys sind möglich."),
	row(factor.ErrSealed, http.StatusInternalServerError, "codes_unavailable", "CodesUnavailable", "code",
		"Codes aus Apps kann dieser Server derzeit nicht prüfen. Bitte einen Wiederherstellungscode oder einen "+
			"Passkey verwenden."),
	row(ErrUnknownApp, http.StatusForbidden, "unknown_app", "", "", "Diese Anwendung ist nicht eingetragen."),
	row(ErrNotLoggedIn, http.StatusUnauthorized, "not_logged_in", "", "", "Nicht angemeldet."),
	row(token.ErrInvalid, http.StatusUnauthorized, "app_token_invalid", "", "",
		"Der Zugangsschlüssel ist ungültig oder gilt hier nicht."),
	row(policy.ErrTooManyTokens, http.StatusTooManyRequests, "", "", "",
		"Zu viele falsche Zugangsschlüssel. Bitte später erneut versuchen."),
	row(policy.ErrAppDenied, http.StatusForbidden, "app_denied", "", "", "Kein Zugang zu dieser Anwendung."),
	row(policy.ErrSecondFactorNeeded, http.StatusForbidden, "second_factor_needed", "", "",
		"Diese Anwendung verlangt einen zweiten Faktor."),
	row(ErrReadOnly, http.StatusForbidden, "read_only", "", "", "Dieser Zugangsschlüssel darf nur lesen."),
	row(ErrForeignPage, http.StatusForbidden, "foreign_page", "ForeignPage", noForm,
		"Diese Anfrage kommt von einer fremden Seite."),
	row(factor.ErrNoPasskey, http.StatusConflict, "no_passkey", "NoPasskeyYet", "",
		"Es ist noch kein Passkey eingetragen."),
	row(application.ErrSlug, http.StatusBadRequest, "slug", "BadSlug", "slug",
		"Das Kürzel muss aus 1 bis 32 Kleinbuchstaben, Ziffern und Bindestrichen bestehen. Eine Gruppe kann "+
			"nicht admin oder member heißen."),
	row(application.ErrName, http.StatusBadRequest, "name", "BadName", "name",
		"Der Name darf nicht leer sein, höchstens 64 Zeichen und keine Steuerzeichen haben."),
	row(application.ErrDescription, http.StatusBadRequest, "description", "BadDescription", "description",
		"Die Beschreibung darf höchstens 200 Zeichen und keine Steuerzeichen haben."),
	row(application.ErrURL, http.StatusBadRequest, "url", "BadURL", "url",
		"Die Adresse muss die Form /pfad/ oder https://host ohne Pfad haben."),
	row(application.ErrRule, http.StatusBadRequest, "rule", "BadRule", "rule",
		"Die Regel muss login, admin oder group mit einer Gruppe sein."),
	row(application.ErrPosition, http.StatusBadRequest, "position", "BadPosition", "position",
		"Die Position muss eine ganze Zahl von 0 bis 9999 sein."),
	row(application.ErrUpstream, http.StatusBadRequest, "upstream", "BadUpstream", "upstream",
		"Die interne Adresse muss die Form http://host:port oder https://host:port ohne Pfad haben."),
	row(application.ErrUpstreamBlocked, http.StatusBadRequest, "upstream_blocked", "UpstreamBlocked", "upstream",
		"Diese interne Adresse ist gesperrt."),
	row(application.ErrUserHeader, http.StatusBadRequest, "user_header", "BadUserHeader", "user_header",
		"Diese Kopfzeile kann den Benutzernamen nicht tragen."),
	row(application.ErrIconTooLarge, http.StatusBadRequest, "", "IconTooLarge", "picture", ""),
	row(ErrNoPicture, http.StatusBadRequest, "", "NoPicture", "picture", ""),
	row(application.ErrPin, http.StatusBadRequest, "pin", "BadForm", "",
		"Der Fingerabdruck muss aus 64 hexadezimalen Ziffern bestehen."),
	row(application.ErrNoRoute, http.StatusNotFound, "no_route", "NoApplication", noForm,
		"Diese Anwendung hat keine interne Adresse."),
	row(application.ErrGroupNotFound, http.StatusBadRequest, "group", "NoGroup", "", "Diese Gruppe gibt es nicht."),
	row(application.ErrNotFound, http.StatusNotFound, "not_found", "NoApplication", noForm,
		"Anwendung nicht gefunden."),
	row(ErrUnknownGroup, http.StatusNotFound, "not_found", "NoGroup", "", "Gruppe nicht gefunden."),
	row(application.ErrSlugTaken, http.StatusConflict, "slug_taken", "SlugTaken", "slug",
		"Dieses Kürzel ist bereits vergeben."),
	row(application.ErrURLTaken, http.StatusConflict, "url_taken", "URLTaken", "url",
		"Diese Adresse hat bereits eine andere Anwendung."),
	row(application.ErrGroupUsed, http.StatusConflict, "group_used", "GroupUsed", "",
		"Die Regel einer Anwendung nennt diese Gruppe."),
	row(application.ErrTooMany, http.StatusConflict, "too_many", "TooMany", "",
		"Mehr davon sind nicht möglich. Bitte zuerst etwas entfernen."),
	row(ErrUnknownMembers, http.StatusBadRequest, "members", "NoUser", noForm, "Nicht alle dieser Personen gibt es."),
	row(token.ErrScope, http.StatusBadRequest, "scope", "BadScope", "apps",
		"Ein Zugangsschlüssel braucht mindestens eine Anwendung in der Form app:KÜRZEL, die Zugangsschlüssel "+
			"annimmt und für die Person offen ist."),
	row(token.ErrExpiry, http.StatusBadRequest, "expires_at", "BadForm", "",
		"Das Ende der Gültigkeit muss ein Zeitpunkt in der Zukunft sein."),
	row(token.ErrTooMany, http.StatusConflict, "too_many", "TooManyTokens", "",
		"Mehr Zugangsschlüssel sind nicht möglich. Bitte zuerst einen entfernen."),
	row(token.ErrActive, http.StatusConflict, "api_token_active", "TokenActive", "",
		"Der Zugangsschlüssel gilt noch. Bitte zuerst widerrufen."),
	row(token.ErrNotFound, http.StatusNotFound, "not_found", "NoToken", "", "Zugangsschlüssel nicht gefunden."),
	row(oidc.ErrNoPublicURL, http.StatusConflict, "no_public_url", "SignInOffAddress", "",
		"Dafür fehlt PUBLIC_URL."),
	row(oidc.ErrNoPages, http.StatusConflict, "no_pages", "SignInOffMode", "",
		"Dafür müssen die Seiten eingeschaltet sein."),
	row(oidc.ErrNoDataKey, http.StatusConflict, "no_data_key", "SignInOffKey", "", "Dafür fehlt DATA_KEY."),
	row(oidc.ErrIssuerChanged, http.StatusConflict, "issuer_changed", "SignInMoved", "",
		"PUBLIC_URL hat sich geändert. Anwendungen kennen die Personen unter der früheren Adresse."),
	row(oidc.ErrNoClient, http.StatusNotFound, "not_found", "NoApplication", noForm,
		"Diese Anwendung meldet niemanden über den Haushalt an."),
	row(oidc.ErrIsClient, http.StatusConflict, "is_client", "IsClient", "",
		"Diese Anwendung meldet schon über den Haushalt an."),
	row(oidc.ErrClientID, http.StatusBadRequest, "client_id", "", "",
		"Die Kennung muss aus 1 bis 64 Buchstaben, Ziffern, Punkten, Bindestrichen und Unterstrichen bestehen."),
	row(oidc.ErrIDTaken, http.StatusConflict, "client_id_taken", "ClientIDTaken", "name",
		"Diese Kennung hat bereits eine andere Anwendung."),
	row(ErrAfterLogout, http.StatusBadRequest, "address", "BadAddress", "after",
		"Eine Adresse nach dem Abmelden kann nicht eingetragen werden."),
	row(oidc.ErrAddress, http.StatusBadRequest, "address", "BadAddress", "redirects",
		"Diese Adresse kann nicht eingetragen werden: nötig ist https://…, ein eigenes Schema oder eine auf demselben "+
			"Gerät, ohne # und *."),
	row(oidc.ErrAddresses, http.StatusBadRequest, "addresses", "BadAddresses", "redirects",
		"Es braucht 1 bis 10 Adressen."),
	row(oidc.ErrLogoutURI, http.StatusBadRequest, "logout_uri", "BadLogoutURI", "logout",
		"Die Adresse für Abmeldungen muss mit https:// oder http:// beginnen."),
	row(oidc.ErrField, http.StatusBadRequest, "field", "BadForm", "",
		"alg ist RS256 oder ES256, pkce auto oder required, groups asked, always oder never."),
	row(oidc.ErrManySecret, http.StatusConflict, "too_many", "TooManySecrets", "",
		"Mehr als zwei Geheimnisse sind nicht möglich. Bitte zuerst eines entfernen."),
	row(oidc.ErrPublic, http.StatusConflict, "public", "", "",
		"Eine Anwendung ohne Server hat kein Geheimnis."),
	row(oidc.ErrNoSecret, http.StatusNotFound, "not_found", "NoApplication", noForm, "Geheimnis nicht gefunden."),
	row(oidc.ErrNoDevice, http.StatusBadRequest, "", "DeviceUnknown", "user_code", ""),
	row(oidc.ErrNoConnection, http.StatusNotFound, "not_found", "NoApplication", noForm, "Verbindung nicht gefunden."),
	row(ErrSubject, http.StatusForbidden, "subject", "", "",
		"Für diese Person kann kein Zugangsschlüssel erstellt werden."),
}

func row(err error, status int, reason, page, field, german string) Failure {
	return Failure{Err: err, Status: status, Reason: reason, Page: page, Field: field, German: german}
}

const invalidCode = "Der Code ist falsch oder abgelaufen."

// internal answers errors that are not in the table and, on pages, those without a text.
var internal = Failure{
	Status: http.StatusInternalServerError, Page: "Internal", Field: noForm,
	German: "Interner Fehler. Bitte später erneut versuchen.",
}

// retryAfterBusy is the Retry-After of a 503, in seconds.
const retryAfterBusy = 3

// FailureOf returns the answer to an error.
func FailureOf(err error) Failure { return service.Find(failures, err, internal) }

// Fail returns the answer to an error and sets its headers.
func Fail(rw http.ResponseWriter, err error) Failure {
	f := FailureOf(err)
	if f.Status == http.StatusServiceUnavailable {
		rw.Header().Set("Retry-After", strconv.Itoa(retryAfterBusy))
	}
	var limited *ratelimit.LimitedError
	if errors.As(err, &limited) {
		refusedHeaders(rw, limited.Limit)
	}
	return f
}

// OfPasskey returns ErrUnknownPasskey for factor.ErrNoPasskey, and any other error as it is.
func OfPasskey(err error) error {
	if errors.Is(err, factor.ErrNoPasskey) {
		return ErrUnknownPasskey
	}
	return err
}

// OfGroup returns ErrUnknownGroup for application.ErrGroupNotFound, ErrUnknownMembers for user.ErrNotFound, and any
// other error as it is.
func OfGroup(err error) error {
	switch {
	case errors.Is(err, application.ErrGroupNotFound):
		return ErrUnknownGroup
	case errors.Is(err, user.ErrNotFound):
		return ErrUnknownMembers
	}
	return err
}
