// Package pages serves what people look at, under /pforte/ and where the guard refuses them: HTML rendered on the
// server, in German and English, which works without scripts, passkeys excepted.
//
// The handlers of a page call the rules of account, people, policy and oidc, as the API does, and never the API;
// scripts for passkeys call it. A page has a handler for GET and, where it has a form, one for POST. That answers 303
// in most cases; when it fails, most pages are shown again with the reason and with what was typed, secrets excepted.
// A form that led to a redirect and is sent again within ten minutes acts once (again.go). A secret that can be shown
// only now, such as a new link, is on the page to which its form redirects, for at most five minutes; where it cannot
// be kept, it is in the answer to the form alone (once.go).
package pages
