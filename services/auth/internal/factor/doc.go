// Package factor describes how users prove who they are beside their password.
//
// It knows no session, no HTTP and no store; passkey implements its RelyingParty.
package factor
