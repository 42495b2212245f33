package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/password"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/token"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// Errors of guards and routes.
var (
	errCSRF      = errors.New("CSRF token missing or wrong")
	errOrigin    = errors.New("WebSocket opened by a page of another origin")
	errForwarded = errors.New("X-Forwarded-Method, X-Forwarded-Uri or role is missing or malformed")
	errUnhealthy = errors.New("a store does not answer")
	errSetupCode = errors.New("set-up link is invalid or expired")
)

// failure is the answer to an error.
type failure struct {
	err    error
	status int
	reason string // for programs; empty where the contract has none
	text   string // German, for the user (contract section 1)
}

// Sentinel implements service.Failure.
func (f failure) Sentinel() error { return f.err }

// failures is the one table from errors to answers. Every other error is a 500 with a
// fixed text, so that nothing internal leaks.
var failures = []failure{
	{errMalformed, http.StatusBadRequest, "", "Die Anfrage ist kein gültiges JSON-Objekt."},
	{service.ErrBodyRead, http.StatusBadRequest, "", "Die Anfrage ist kein gültiges JSON-Objekt."},
	{errForwarded, http.StatusBadRequest, "", "Die Angaben zur weitergeleiteten Anfrage fehlen oder sind ungültig."},
	{account.ErrMissing, http.StatusBadRequest, "", "Bitte alle Pflichtfelder ausfüllen."},
	{account.ErrTooLong, http.StatusBadRequest, "", "Benutzername oder Passwort ist zu lang."},
	{account.ErrOwnAccount, http.StatusBadRequest, "", "Das eigene Konto kann nicht gelöscht werden."},
	{password.ErrTooShort, http.StatusBadRequest, "", "Das Passwort muss mindestens 8 Zeichen lang sein."},
	{password.ErrTooLong, http.StatusBadRequest, "", "Das Passwort darf höchstens 1024 Zeichen lang sein."},
	{user.ErrUsername, http.StatusBadRequest, "", "Der Benutzername muss 3 bis 64 Zeichen lang sein und darf nur Buchstaben, Ziffern, Punkt, Bindestrich und Unterstrich enthalten."},
	{user.ErrDisplayName, http.StatusBadRequest, "", "Der Anzeigename darf nicht leer sein und keine Steuerzeichen enthalten."},
	{user.ErrDisplayNameTooLong, http.StatusBadRequest, "", "Der Anzeigename darf höchstens 128 Zeichen lang sein."},
	{user.ErrAvatarColor, http.StatusBadRequest, "", "Die Farbe muss die Form #RGB oder #RRGGBB haben."},
	{user.ErrRole, http.StatusBadRequest, "", "Die Rolle muss admin oder member sein."},
	{user.ErrLastAdmin, http.StatusBadRequest, "", "Der letzte Administrator muss bleiben."},
	{session.ErrNotFound, http.StatusUnauthorized, "", "Nicht angemeldet."},
	{account.ErrInvalidCredentials, http.StatusUnauthorized, "", "Benutzername oder Passwort ist falsch."},
	{account.ErrWrongPassword, http.StatusUnauthorized, "", "Das aktuelle Passwort ist falsch."},
	{user.ErrNotAdmin, http.StatusForbidden, "", "Dafür sind Administratorrechte nötig."},
	{errCSRF, http.StatusForbidden, "", "Das CSRF-Token fehlt oder ist ungültig."},
	{errOrigin, http.StatusForbidden, "", "Diese Verbindung wurde von einer fremden Seite geöffnet."},
	{user.ErrNotFound, http.StatusNotFound, "", "Benutzer nicht gefunden."},
	{service.ErrNoRoute, http.StatusNotFound, "", "Nicht gefunden."},
	{service.ErrWrongMethod, http.StatusMethodNotAllowed, "", "Diese Methode ist hier nicht erlaubt."},
	{user.ErrUsernameTaken, http.StatusConflict, "", "Dieser Benutzername ist bereits vergeben."},
	{service.ErrBodyTooLarge, http.StatusRequestEntityTooLarge, "", "Die Anfrage ist zu groß."},
	{service.ErrMediaType, http.StatusUnsupportedMediaType, "", "Die Anfrage muss application/json sein."},
	{web.ErrLimited, http.StatusTooManyRequests, "", "Zu viele fehlgeschlagene Versuche. Bitte später erneut versuchen."},
	{password.ErrBusy, http.StatusServiceUnavailable, "", "Der Dienst ist gerade ausgelastet. Bitte gleich erneut versuchen."},
	{account.ErrPending, http.StatusInternalServerError, "", "Die Änderung ist gespeichert. Bestehende Sitzungen enden, sobald der Sitzungsspeicher wieder antwortet."},
	{errUnhealthy, http.StatusServiceUnavailable, "", "Der Dienst ist gerade nicht bereit."},
	{errQuery, http.StatusBadRequest, "query", "Die Auswahl der Einträge ist ungültig."},
	{account.ErrReauthRequired, http.StatusForbidden, "reauth_required", "Für diese Änderung ist eine erneute Bestätigung nötig: /pforte/reauth"},
	{account.ErrHouseholdName, http.StatusBadRequest, "household", "Der Name des Haushalts darf höchstens 64 Zeichen lang sein und keine Steuerzeichen enthalten."},
	{account.ErrResetLinkOnly, http.StatusBadRequest, "reset_link_only", "Ein Passwort setzt nur die Person selbst. Bitte einen Link erstellen."},
	{account.ErrUseOwnPage, http.StatusBadRequest, "own_account", "Für das eigene Konto bitte die Kontoseite verwenden."},
	{password.ErrCommon, http.StatusBadRequest, "common_password", "Dieses Passwort ist zu bekannt. Bitte ein anderes wählen."},
	{user.ErrUsernameReserved, http.StatusBadRequest, "username_reserved", "Dieser Benutzername ist nicht frei wählbar, oder er beginnt mit einem Bindestrich. Bitte einen anderen nehmen."},
	{user.ErrUsernameFormer, http.StatusConflict, "username_former", "Diesen Benutzernamen hatte schon ein anderes Mitglied. Bitte einen anderen nehmen."},
	{link.ErrInvalid, http.StatusBadRequest, "invalid_token", "Der Link ist ungültig oder abgelaufen."},
	{errSetupCode, http.StatusForbidden, "setup_code", "Der Einrichtungslink ist ungültig oder abgelaufen."},
	{link.ErrNotFound, http.StatusNotFound, "not_found", "Einladung nicht gefunden."},
	{account.ErrNoPendingLogin, http.StatusUnauthorized, "no_pending_login", "Keine laufende Anmeldung. Bitte neu anmelden."},
	{factor.ErrRequired, http.StatusForbidden, "required", "Der Haushalt verlangt einen zweiten Faktor. Der letzte kann nicht entfernt werden."},
	{factor.ErrPasskeysUnavailable, http.StatusConflict, "passkeys_unavailable", "Passkeys brauchen eine Adresse mit https."},
	{factor.ErrPasskeyExists, http.StatusConflict, "passkey_exists", "Dieser Passkey ist bereits eingetragen."},
	{factor.ErrTooManyPasskeys, http.StatusConflict, "too_many_passkeys", "Mehr Passkeys sind nicht möglich. Bitte zuerst einen entfernen."},
	{factor.ErrPasskeyFailed, http.StatusUnauthorized, "passkey_failed", "Der Passkey wurde nicht erkannt."},
	{errNotRegistered, http.StatusBadRequest, "passkey_failed", "Der Passkey wurde nicht erkannt."},
	{account.ErrPasskeyName, http.StatusBadRequest, "passkey_name", "Der Name darf höchstens 64 Zeichen lang sein und keine Steuerzeichen enthalten."},
	{errUnknownPasskey, http.StatusNotFound, "not_found", "Passkey nicht gefunden."},
	{user.ErrNotEmpty, http.StatusNotFound, "", "Nicht gefunden."},
	{account.ErrWrongCode, http.StatusBadRequest, "invalid_code", textInvalidCode}, // before the next one, which it wraps
	{factor.ErrInvalidCode, http.StatusUnauthorized, "invalid_code", textInvalidCode},
	{account.ErrTooManyCodes, http.StatusTooManyRequests, "", "Zu viele falsche Codes. Bitte später erneut versuchen oder einen Passkey verwenden."},
	{account.ErrTooManyTries, http.StatusTooManyRequests, "", "Zu viele fehlgeschlagene Versuche. Bitte später erneut versuchen."},
	{account.ErrReauthPassword, http.StatusUnauthorized, "wrong_password", "Das Passwort ist falsch."},
	{account.ErrNoSession, http.StatusNotFound, "not_found", "Sitzung nicht gefunden."},
	{factor.ErrAlreadyEnabled, http.StatusConflict, "already_enabled", "Der zweite Faktor ist bereits eingerichtet."},
	{factor.ErrNoPendingSetup, http.StatusConflict, "no_pending_setup", "Es wurde noch keine Einrichtung begonnen."},
	{factor.ErrNotEnabled, http.StatusConflict, "not_enabled", "Der zweite Faktor ist nicht eingerichtet."},
	{factor.ErrNotConfigured, http.StatusConflict, "not_configured", "Codes sind auf diesem Server nicht eingerichtet. Passkeys sind möglich."},
	{factor.ErrSealed, http.StatusInternalServerError, "codes_unavailable", "Codes aus Apps kann dieser Server derzeit nicht prüfen. Bitte einen Wiederherstellungscode oder einen Passkey verwenden."},
	{errUnknownApp, http.StatusForbidden, "unknown_app", "Diese Anwendung ist nicht eingetragen."},
	{errNotLoggedIn, http.StatusUnauthorized, "not_logged_in", "Nicht angemeldet."},
	{token.ErrInvalid, http.StatusUnauthorized, "app_token_invalid", "Der Zugangsschlüssel ist ungültig oder gilt hier nicht."},
	{account.ErrTooManyTokens, http.StatusTooManyRequests, "", "Zu viele falsche Zugangsschlüssel. Bitte später erneut versuchen."},
	{account.ErrAppDenied, http.StatusForbidden, "app_denied", "Kein Zugang zu dieser Anwendung."},
	{account.ErrSecondFactorNeeded, http.StatusForbidden, "second_factor_needed", "Diese Anwendung verlangt einen zweiten Faktor."},
	{errReadOnly, http.StatusForbidden, "read_only", "Dieser Zugangsschlüssel darf nur lesen."},
	{errForeignPage, http.StatusForbidden, "foreign_page", "Diese Anfrage kommt von einer fremden Seite."},
	{factor.ErrNoPasskey, http.StatusConflict, "no_passkey", "Es ist noch kein Passkey eingetragen."},
	{application.ErrSlug, http.StatusBadRequest, "slug", "Das Kürzel muss aus 1 bis 32 Kleinbuchstaben, Ziffern und Bindestrichen bestehen. Eine Gruppe kann nicht admin oder member heißen."},
	{application.ErrName, http.StatusBadRequest, "name", "Der Name darf nicht leer sein, höchstens 64 Zeichen und keine Steuerzeichen haben."},
	{application.ErrDescription, http.StatusBadRequest, "description", "Die Beschreibung darf höchstens 200 Zeichen und keine Steuerzeichen haben."},
	{application.ErrURL, http.StatusBadRequest, "url", "Die Adresse muss die Form /pfad/ oder https://host ohne Pfad haben."},
	{application.ErrRule, http.StatusBadRequest, "rule", "Die Regel muss login, admin oder group mit einer Gruppe sein."},
	{application.ErrPosition, http.StatusBadRequest, "position", "Die Position muss eine ganze Zahl von 0 bis 9999 sein."},
	{application.ErrGroupNotFound, http.StatusBadRequest, "group", "Diese Gruppe gibt es nicht."},
	{application.ErrNotFound, http.StatusNotFound, "not_found", "Anwendung nicht gefunden."},
	{errUnknownGroup, http.StatusNotFound, "not_found", "Gruppe nicht gefunden."},
	{application.ErrSlugTaken, http.StatusConflict, "slug_taken", "Dieses Kürzel ist bereits vergeben."},
	{application.ErrURLTaken, http.StatusConflict, "url_taken", "Diese Adresse hat bereits eine andere Anwendung."},
	{application.ErrGroupUsed, http.StatusConflict, "group_used", "Die Regel einer Anwendung nennt diese Gruppe."},
	{application.ErrTooMany, http.StatusConflict, "too_many", "Mehr davon sind nicht möglich. Bitte zuerst etwas entfernen."},
	{errUnknownMembers, http.StatusBadRequest, "members", "Nicht alle dieser Personen gibt es."},
	{token.ErrScope, http.StatusBadRequest, "scope", "Ein Zugangsschlüssel braucht mindestens eine Anwendung in der Form app:KÜRZEL, die Zugangsschlüssel annimmt und für die Person offen ist."},
	{token.ErrExpiry, http.StatusBadRequest, "expires_at", "Das Ende der Gültigkeit muss ein Zeitpunkt in der Zukunft sein."},
	{token.ErrTooMany, http.StatusConflict, "too_many", "Mehr Zugangsschlüssel sind nicht möglich. Bitte zuerst einen entfernen."},
	{token.ErrActive, http.StatusConflict, "api_token_active", "Der Zugangsschlüssel gilt noch. Bitte zuerst widerrufen."},
	{token.ErrNotFound, http.StatusNotFound, "not_found", "Zugangsschlüssel nicht gefunden."},
	{errSubject, http.StatusForbidden, "subject", "Für diese Person kann kein Zugangsschlüssel erstellt werden."},
}

const textInvalidCode = "Der Code ist falsch oder abgelaufen."

// internal answers every error that is not in the table.
var internal = failure{status: http.StatusInternalServerError, text: "Interner Fehler. Bitte später erneut versuchen."}

// retryAfterBusy is the Retry-After of a 503, in seconds: the time to empty a full queue.
const retryAfterBusy = 3

// failureOf returns the answer to an error.
func failureOf(err error) failure { return service.Find(failures, err, internal) }

// errorBody is the contract's error body (section 2).
type errorBody struct {
	Error string `json:"error"`
	Code  int    `json:"code"`
	// Reason is beside the contract: its own answers have none.
	Reason string `json:"reason,omitempty"`
	// ClockSkew is by how many seconds the clock that made a code is ahead.
	ClockSkew int `json:"clock_skew_seconds,omitempty"`
}

// writeError is the only place that answers errors.
func writeError(err error, c echo.Context) {
	f := failureOf(err)
	if f.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", strconv.Itoa(retryAfterBusy))
	}
	web.LimitHeaders(c.Response(), err)
	if c.Request().Method == http.MethodHead {
		_ = c.NoContent(f.status) // the client is gone if this fails
		return
	}
	body := errorBody{Error: f.text, Code: f.status, Reason: f.reason}
	var skew *account.SkewError
	if errors.As(err, &skew) {
		body.ClockSkew = int(skew.Ahead.Seconds())
	}
	_ = writeJSON(c, f.status, body)
}
