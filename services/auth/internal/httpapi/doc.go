// Package httpapi is the HTTP interface of auth: routes, guards, decoding, the guard for
// other applications.
//
// It owns statuses, bodies and headers; the rules behind them are in account, people, policy
// and oidc, cookies in session. Handlers return an answer or an error and do not write, but for
// those of the guard and of the OpenID Connect provider; guards wrap them in the order
// authentication, admin, CSRF, recent proof, and the body is read last.
package httpapi
