// Package factor describes how users prove who they are other than by a password.
//
// It knows no HTTP and no SQL; passkey implements its RelyingParty, sqlstore its PasskeyStore.
package factor
