// Package redisstore counts attempts in Redis (6 or later; alone, with Sentinel
// or as a Cluster).
//
// A window is one key, "<app>:limit:<limiter>:<key>": the set of its attempts,
// which holds at most the limit, expires with the window, and is gone when it
// is empty. Where an attempt counts in several windows, from the narrowest to
// the widest, each is "<app>:limit:{<limiter>:<widest>}:<limiter>:<key>": the
// hash tag puts them into one slot of a Cluster. Each step is one Lua script on
// these keys. A refund removes its own attempt, so it can be repeated and does not
// change a later window. A failover may lose the attempts of its last second.
package redisstore
