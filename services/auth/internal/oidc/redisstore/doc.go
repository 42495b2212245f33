// Package redisstore keeps in Redis what the provider needs for a day at most: codes, access tokens, kept requests,
// devices that wait for their users, and the last refusals.
package redisstore
