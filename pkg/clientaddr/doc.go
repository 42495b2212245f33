// Package clientaddr determines the client's address of a request that passed
// trusted proxies.
package clientaddr
