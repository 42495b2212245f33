// Package redisstore keeps sessions in Redis (6 or later; alone, with Sentinel
// or as a Cluster).
//
// # Keys
//
// All keys of a user have the hash tag {u<user id>} and so one slot; each
// method is one Lua script on them, and one round trip.
//
//	<app>:{u42}:session:<sha256 of the id>  hash: username, role, csrf, agent, created, stamp
//	<app>:{u42}:sessions                    sorted set: those hashes by expiry (Unix ms)
//	<app>:{u42}:fence                       string: see session.Store.Fence
//
// A session is live while its key exists *and* the set names it. So whatever
// Redis may lose, a session that can not be found by its user is not accepted.
// The scripts compute the names of session keys from the set; they lie in the
// declared keys' slot.
//
// A user has at most session.MaxPerUser sessions: Create ends the one that was
// used longest ago, which is the first of the set. No script touches more than
// 1000 sessions; a revocation of more, from before there was a limit, takes
// several steps.
//
// # Expiry
//
// Session keys expire by themselves, and a set with its last session. Entries
// of expired sessions leave a set whenever a session of that user is used or
// made; Sweep removes those of users who have others that nobody uses. It walks
// the keys by SCAN in small steps, so that no request waits for it.
//
// # What Redis must be
//
// maxmemory-policy noeviction, else people are logged out when memory is short.
// Without persistence they are when it restarts. A failover may lose the last
// second: logins of that second are then gone, and a logout of that second may
// have to be repeated. What a deletion, a new password or a change of role
// revokes holds without Redis, by the user's row (user.User.Admits).
package redisstore
