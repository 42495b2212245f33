// Package session keeps users logged in: the Session, the Store that holds it, and
// the Manager that carries it over HTTP in two cookies, on gorilla/sessions, and on the
// hosts of applications in another one.
//
// It owns the cookies, the signature and age of the session cookie, the ids, and
// the rule that a session that was ended, revoked or has expired never comes back,
// whatever is under way. It knows no user record, no password and no Redis;
// redisstore implements the Store.
//
// # No login outlives its user
//
// A login takes time, and meanwhile the user may be deleted or get another password. A login calls Store.Fence, then
// reads the user (again), then calls Store.Create with the fence. Revoke removes the fence as it ends the sessions,
// and Create then returns ErrFenced.
//
// # Hosts of applications
//
// An application's host has a cookie of its own, which it gets by a hand-over from the portal: BeginHandOver there,
// CreateHandOver at the portal, TakeHandOver and OpenHost there again. A hand-over counts once, and in the browser
// that began it. The hosts that are open are part of the session and end with it.
package session
