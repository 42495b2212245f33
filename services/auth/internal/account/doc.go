// Package account holds the rules about how users prove who they are: logging in and out, passwords, second factors
// and passkeys, and the sessions of a user. They share one state, that of Service; its Passkeys and SecondFactor
// group some of them. Who the users are is decided by package people, what they may open by policy.
//
// It owns the order of the steps between the user store, the session store and the password hasher, so that no
// session outlives its user, and only the one in which a password is changed outlives the old one. It knows no HTTP
// and no text for users; errors are the sentinels of this package and of user, session, password and factor, and
// ratelimit.LimitedError.
//
// # Revocations
//
// Users and sessions are in two stores, and the process may end between any two
// lines. The user store therefore records, in the transaction of the change, that
// sessions have to follow. The rule carries that out at once; Replay does it where
// the rule could not.
//
// No request depends on that: the same transaction sets a new session stamp or
// deletes the row, and every request compares its session with the row (user.User.Admits).
// The row also has the role, so that a new one holds at once.
package account
