// Package oidc is the household's OpenID Connect provider: applications have users log in here, and learn who they are
// (OpenID Connect Core 1.0, RFC 6749, 7636, 9207 and 9700).
//
// A client is an application of package application whose users log in here. Each login at a client is a grant.
// Access and refresh tokens carry no claims: at each use of a live one, the grant, the user's row and the
// application's rule are read again, and decide.
//
// The main flows are Authorize, Exchange, ExchangeDevice, Refresh, UserInfo and EndSession. The package serves no
// HTTP: it names errors, and declares the stores that it needs. LogoutSender alone sends requests. Private keys are
// package sign's.
package oidc
