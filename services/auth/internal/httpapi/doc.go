// Package httpapi is the HTTP face of auth: routes, guards, decoding, the error
// table with its German texts, the guard for other applications, metrics of
// requests.
//
// It owns statuses, bodies and headers; the rules behind them are in account,
// cookies in session. Find a rule of the contract in the file of its noun or
// verb: login.go, me.go, users.go, guards.go, limit.go, errors.go.
//
// Handlers return an answer or an error and never write themselves; guards wrap
// them in the order authentication, admin, CSRF, and the body is read last.
package httpapi
