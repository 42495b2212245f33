// Package api holds the description of the verifier's interface: openapi.json,
// an OpenAPI 3.1 document. The verifier serves it with its own address, price
// and the paths of its chains.
package api

import _ "embed" // the document

// Document is the OpenAPI document, JSON.
//
//go:embed openapi.json
var Document []byte
