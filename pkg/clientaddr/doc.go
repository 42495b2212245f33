// Package clientaddr finds out from which address a request comes when trusted
// proxies stand in between. It knows nothing of what the address is used for.
package clientaddr
