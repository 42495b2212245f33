// Package redisstore keeps in Redis what proxies report about routes: it lasts for seconds, and all replicas need it.
package redisstore
