// Package redisstore counts attempts in Redis (6 or later; alone, with Sentinel
// or as a Cluster).
//
// A window is one key, "<app>:limit:<limiter>:<key>": the set of its attempts,
// which holds at most the limit, expires with the window, and is gone when it
// is empty. Each step is one Lua script on that key. A refund takes its own
// attempt out, so it can be repeated and can not reach a later window. A
// failover may forget the attempts of its last second.
package redisstore
