// Package redisstore keeps in Redis what the provider needs for minutes: codes, access tokens, requests and devices
// that wait for a login, and what was refused last. What is lost costs a redirect.
package redisstore
