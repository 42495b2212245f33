// Package wire stands between two programs and does to what passes what
// networks and strangers do: delays, cuts, garbage, refusals and lies. TCP is
// for any protocol, HTTP for questions with one answer each. Both pass
// everything on unchanged until they are told otherwise.
package wire
