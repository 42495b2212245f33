// Package redisstore keeps in Redis what the provider needs for a day at most: codes, access tokens, kept requests,
// devices, which applications have not asked for tokens, and the last refusals.
package redisstore
