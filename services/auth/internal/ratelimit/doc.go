// Package ratelimit counts attempts per key (a client address, a user) in fixed
// windows and refuses those above a limit.
//
// An attempt is counted *before* the work that it is for and refunded when it does
// not count after all, each in one atomic step of the Store, so that any number of
// concurrent attempts get exactly the limit. It knows no HTTP and no Redis;
// redisstore holds the Store.
package ratelimit
