// Package httpapi is the HTTP interface of auth: routes, guards, decoding, the guard for
// other applications.
//
// It owns bodies and the statuses of answers; the statuses of errors are in web, the rules behind
// them in account, people, policy and oidc, cookies in session. Most handlers return an answer or an
// error and do not write; most of those of the guard and of the OpenID Connect provider do. Checks
// wrap handlers in the order authentication, admin, CSRF, recent proof; none of the first three waits
// for the body.
package httpapi
