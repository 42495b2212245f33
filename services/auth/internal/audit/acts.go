package audit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// act is what follows from an event, beside its row in the audit.
type act struct {
	// log names the event in the log, cli where a command caused it; an empty cli means log. There is no line where the
	// name is empty or "-".
	log, cli string
	// fields are what this event's line has beyond those of Log, separated by spaces: user_id, by (the user who acted),
	// and keys of the detail, or of its member after.
	fields string
	notice bool // shown to the user whom it concerns
	// admins reports that it is shown to admins, but not to the one who did it (Store.AdminNotices).
	admins bool
	// notify is the German text of a notification; nil: there is none. It names users, and
	// neither addresses nor what opens an account.
	notify func(Entry) string
}

// acts has all events, by name. Package web logs some of those without log, such as logins,
// when they happen, whatever becomes of their rows.
var acts = map[string]act{
	"access_asked":           {log: "access_asked", fields: "user_id app", admins: true},
	"app_changed":            {log: "app_changed", fields: "app by"},
	"app_icon_set":           {log: "app_icon_set", fields: "app by"},
	"app_made":               {log: "app_made", fields: "app by"},
	"app_probed":             {log: "app_probed", fields: "upstream by"},
	"app_removed":            {log: "app_removed", fields: "app by"},
	"app_route_set":          {log: "app_route_set", fields: "app by", admins: true},
	"audit_swept":            {},
	"device_new":             {notice: true, notify: notifyDevice},
	"duty_changed":           {},
	"email_changed":          {log: "email_changed", fields: "user_id confirmed removed by", notice: true},
	"group_changed":          {log: "group_changed", fields: "group by"},
	"group_made":             {log: "group_made", fields: "group by"},
	"group_removed":          {log: "group_removed", fields: "group by"},
	"groups_changed":         {log: "groups_changed", fields: "user_id added removed by"},
	"guest_changed":          {log: "guest_changed", fields: "user_id ends_at by", notice: true},
	"household_renamed":      {log: "household_renamed", fields: "by"},
	"invite_accepted":        {log: "invite_accepted", fields: "user_id role"},
	"invite_made":            {log: "invite_created", fields: "role by"},
	"invite_revoked":         {log: "invite_revoked", fields: "by"},
	"login":                  {},
	"login_failed":           {},
	"login_refused":          {},
	"logout":                 {},
	"oidc_client_changed":    {log: "oidc_client_changed", fields: "app by", admins: true},
	"oidc_client_made":       {log: "oidc_client_made", fields: "app by", admins: true},
	"oidc_client_removed":    {log: "oidc_client_removed", fields: "app by"},
	"oidc_code_reused":       {log: "oidc_code_reused", fields: "user_id app"},
	"oidc_denied":            {log: "oidc_denied", fields: "user_id app"},
	"oidc_disconnected":      {log: "oidc_disconnected", fields: "user_id app reason by"},
	"oidc_first_login":       {log: "oidc_first_login", fields: "user_id app", notice: true},
	"oidc_issuer_changed":    {log: "oidc_issuer_changed", fields: "issuer by", admins: true},
	"oidc_key_rotated":       {log: "oidc_key_rotated", fields: "by"},
	"oidc_login":             {},
	"oidc_logout_failed":     {admins: true},
	"oidc_refresh_reused":    {log: "oidc_refresh_reused", fields: "user_id app", notice: true, notify: notifyReused},
	"oidc_secret_made":       {log: "oidc_secret_made", fields: "app by"},
	"oidc_secret_removed":    {log: "oidc_secret_removed", fields: "app by"},
	"passkey_added":          {log: "passkey_added", fields: "user_id", notice: true},
	"passkey_clone":          {notice: true},
	"passkey_failed":         {},
	"passkey_flags_changed":  {},
	"passkey_removed":        {log: "passkey_removed", fields: "user_id", notice: true},
	"passkey_renamed":        {},
	"password_change_failed": {},
	"password_changed":       {log: "password_changed", fields: "user_id", notice: true},
	"password_reset":         {cli: "password_changed", notice: true},
	"profile_changed":        {},
	"reauth":                 {},
	"reauth_failed":          {},
	"recovery_renewed":       {},
	"recovery_used":          {notice: true, notify: notifyRecovery},
	"reset_asked":            {notify: notifyAsked},
	"reset_dismissed":        {log: "reset_dismissed", fields: "user_id by"},
	"reset_made":             {log: "reset_link_created", fields: "user_id by", notice: true, notify: notifyReset},
	"reset_used":             {log: "reset_used", fields: "user_id", notice: true},
	"role_changed":           {cli: "role_changed", fields: "role", notice: true, notify: notifyRole},
	"second_factor_failed":   {},
	"second_factor_guessed":  {notice: true, notify: notifyGuessed},
	"second_factor_off":      {notice: true},
	"second_factor_on":       {notice: true},
	"second_factor_reset":    {log: "second_factor_reset", fields: "user_id by", notice: true, notify: notifyFactor},
	"session_ended":          {},
	"sessions_ended":         {log: "sessions_ended", cli: "-", fields: "user_id by"},
	"setup":                  {log: "setup", fields: "user_id"},
	"setup_made":             {cli: "setup_link_created"},
	"token_made":             {log: "token_made", fields: "token user_id by", notice: true},
	"token_revoked":          {log: "token_revoked", fields: "token tokens user_id by"},
	"unknown_app":            {},
	"user_created":           {log: "user_created", fields: "user_id role by"},
	"user_deleted":           {log: "user_deleted", fields: "user_id by"},
	"user_disabled":          {log: "user_disabled", fields: "user_id by"},
	"user_enabled":           {log: "user_enabled", fields: "user_id by", notice: true},
	"user_imported":          {},
	"username_changed":       {log: "username_changed", fields: "user_id by", notice: true},
}

// Names returns the names of all events, sorted.
func Names() []string { return slices.Sorted(maps.Keys(acts)) }

// Notifiable returns the names of the events of which notifications can be sent, sorted.
func Notifiable() []string { return named(func(a act) bool { return a.notify != nil }) }

// noticed returns the names of the events that are shown to the user whom they concern.
func noticed() []string { return named(func(a act) bool { return a.notice }) }

// forAdmins returns the names of the events that are shown to admins, but not to the one who did them.
func forAdmins() []string { return named(func(a act) bool { return a.admins }) }

func named(is func(act) bool) []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return !is(acts[name]) })
}

// Log writes the line of an entry, if its event has one. What the service does by itself (System) has none.
func Log(ctx context.Context, log *slog.Logger, e Entry) {
	a := acts[e.Event.Name]
	name, attrs := a.log, []any{"ip", e.IP, "request_id", e.RequestID}
	if e.Kind == Operator {
		name, attrs = cmp.Or(a.cli, a.log), []any{"actor", "cli", "os_user", e.Actor.Name}
		if e.SubjectName != "" {
			attrs = append(attrs, "username", e.SubjectName)
		}
	}
	if name == "" || name == "-" || e.Kind == System {
		return
	}
	after, _ := e.Detail["after"].(map[string]any)
	for field := range strings.FieldsSeq(a.fields) {
		value, known := after[field]
		if !known {
			value, known = e.Detail[field]
		}
		switch field {
		case "user_id":
			value, known = e.SubjectID, true
		case "by":
			value, known = e.Actor.ID, e.Actor.ID != 0
		}
		if known {
			attrs = append(attrs, field, value)
		}
	}
	log.InfoContext(ctx, "audit", append([]any{"event", name}, attrs...)...)
}

func notifyDevice(e Entry) string {
	return fmt.Sprintf("Neue Anmeldung von %s: %v.", e.SubjectName, e.Detail["browser"])
}

func notifyFactor(e Entry) string {
	return "Der zweite Faktor von " + e.SubjectName + " wurde zurückgesetzt" + by(e)
}

func notifyGuessed(e Entry) string {
	return "Jemand kennt das Passwort von " + e.SubjectName + " und rät Codes."
}

func notifyRecovery(e Entry) string {
	return e.SubjectName + " hat einen Wiederherstellungscode benutzt."
}

func notifyReused(e Entry) string {
	app, _ := e.Detail["app"].(string)
	return fmt.Sprintf("Die Verbindung von %s mit einer Anwendung (%s) wurde getrennt: Ein verbrauchtes "+
		"Refresh-Token wurde noch einmal benutzt.", e.SubjectName, app)
}

func notifyReset(e Entry) string {
	return "Für " + e.SubjectName + " wurde ein Link für ein neues Passwort erstellt" + by(e)
}

func notifyAsked(e Entry) string { return e.SubjectName + " bittet um ein neues Passwort." }

func notifyRole(e Entry) string {
	return fmt.Sprintf("Die Rolle von %s ist jetzt %v%s", e.SubjectName, e.Detail["role"], by(e))
}

// by returns the end of a text: ", von " and the name of the user who did it, or a full stop alone.
func by(e Entry) string {
	if e.Kind != User {
		return "."
	}
	return ", von " + e.Actor.Name + "."
}
