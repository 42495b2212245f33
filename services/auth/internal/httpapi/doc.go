// Package httpapi is the HTTP interface of auth: routes, guards, decoding, the guard for
// other applications.
//
// It owns statuses, bodies and headers; the rules behind them are in account, cookies
// in session. Handlers return an answer or an error and do not write; guards wrap them
// in the order authentication, admin, CSRF, and the body is read last.
package httpapi
