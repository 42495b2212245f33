// Package redisstore keeps sessions, pending logins, ceremonies and hand-overs in Redis (6
// or later; alone, with Sentinel or as a Cluster).
//
// # Keys
//
// All keys of a user have the hash tag {u<user id>} and so one slot; each method is one command or Lua script on
// them, but Revoke and Sweep may be several.
//
//	<app>:{u42}:session:<sha256 of the id>  hash: username, role, csrf, agent, created, stamp, factor, auth_at, ip,
//	                                        login, device, and h:<host> for each host of an application that it opens
//	<app>:{u42}:sessions                    sorted set: those hashes by expiry (Unix ms)
//	<app>:{u42}:fence                       string: see session.Store.Fence
//	<app>:{u42}:pending:<sha256 of the id>  hash: fingerprint, browser, replaces, agent, ip, tries, created, device
//	<app>:ceremony:<sha256 of the id>       hash: purpose, user, owner, data
//	<app>:handover:<sha256 of the code>     hash: user, key, host, state, device
//	<app>:taken:{<key>}:<random>            one of the last two, for two seconds after it was taken
//
// A session is live while its key exists *and* is in the set: one that a revocation
// could not find is not accepted, whatever Redis loses. The scripts compute the names
// of session keys from the set; they are in the slot of the declared keys.
//
// A user has at most session.MaxPerUser sessions: Create ends the one that was used longest ago. No script reads more
// than 1001 sessions; a revocation of more, from before there was a limit, takes several steps.
//
// # Expiry
//
// Session keys expire by themselves, and a set no sooner than its last session. Entries of expired sessions are removed
// from a set whenever a session of that user is renewed or created, and by Sweep, which scans the keys in small steps
// so that no request waits.
//
// # Requirements
//
// maxmemory-policy noeviction, else users are logged out when memory is short. Without persistence they are logged
// out when Redis restarts. A failover may lose the last second: logins of that second are then lost, and a logout of
// that second may have to be repeated. What a deletion or a new password revokes, and a change of role, hold without
// Redis, by the user's row (user.User.Admits).
package redisstore
