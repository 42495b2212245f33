// Package api holds the description of auth's interface: openapi.json, an
// OpenAPI 3.1 document, as auth serves it.
package api

import _ "embed" // the document

// Document is the OpenAPI document, JSON.
//
//go:embed openapi.json
var Document []byte
