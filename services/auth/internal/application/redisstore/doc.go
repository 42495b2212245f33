// Package redisstore keeps in Redis what proxies report about routes, and probes: they last for seconds, and all
// replicas need them.
package redisstore
