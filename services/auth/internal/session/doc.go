// Package session keeps people logged in: the Session, the Store that holds
// it, and the Manager that carries it over HTTP in two cookies, on
// gorilla/sessions.
//
// It owns the cookies, the signature and age of the session cookie, the ids and
// the meaning of "gone": a session that was ended, revoked or has expired never
// comes back, whatever else is under way. It knows no user record, no password
// and no Redis; stores stand in packages of their own (redisstore), and
// MemoryStore is the contract that they are tested against (sessiontest).
//
// # No login outlives its user
//
// A login takes time, and meanwhile the user may be deleted or given another
// password or role. Store.Fence is asked first, then the user is read (again),
// then Store.Create is called with the fence; everything that revokes a user's
// sessions or changes their role takes the fence away in the same step, and
// Create then answers ErrFenced.
package session
