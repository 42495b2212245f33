// Package wire is proxies between two programs that fail as networks and other
// parties do: delays, cuts, garbage, refusals and lies. TCP is for any protocol,
// HTTP for requests with one answer each. Both forward everything unchanged until a
// fault is set.
package wire
