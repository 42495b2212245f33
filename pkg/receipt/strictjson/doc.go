// Package strictjson reads JSON from outside the way two programs cannot
// understand differently: names match exactly and in their case, no name comes
// twice, text is valid UTF-8, and nothing follows the value (RFC 8259 leaves
// all of this open; RFC 7493 requires it). An error has its place as a JSON
// pointer (RFC 6901).
//
// encoding/json takes the last of two equal names and matches names in any
// case, so that a value judged here could be another one to the next reader.
package strictjson
