// Package ratelimit counts attempts per key (a client address, a user) in fixed
// windows and refuses those above a limit.
//
// An attempt is taken *before* the work that it pays for and given back when it
// turns out not to count, each in one atomic step of the Store, so that any
// number of attempts at once get exactly the limit. It knows no HTTP and no
// Redis; stores stand in packages of their own (redisstore), and MemoryStore is
// the contract that they are tested against (ratelimittest).
package ratelimit
