// Package pages serves what people look at, under /pforte/: HTML rendered on the server,
// in German and English, which works without scripts, passkeys excepted.
//
// A page calls the same rules as the API, those of account, people, policy and oidc, and never the API itself. It
// is a handler for GET and, where it has a form, one for POST, which answers 303 to a
// page or fails; then the page is shown again with the reason and what was typed. A form that
// is sent twice acts once (again.go); a secret that it makes is on the page to which it
// redirects, for five minutes (once.go).
package pages
