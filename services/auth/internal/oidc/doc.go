// Package oidc is the household's OpenID Connect provider: applications have users log in here, and learn who they are
// (OpenID Connect Core 1.0, RFC 6749, 7636, 9207 and 9700).
//
// A login at an application rests on a grant. Nothing but the user's row, the grant's and the application's rule
// decides, and each use of a code or token reads them again: tokens hold nothing. A client is an application of package
// application, one to one.
//
// The flows are Authorize, Exchange, Refresh and UserInfo, each in a file of its name. The package knows no HTTP and no
// store: it names errors, and declares what it needs. Private keys are package sign's.
package oidc
