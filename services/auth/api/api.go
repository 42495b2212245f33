package api

import _ "embed" // the document

// Document is the OpenAPI document, JSON.
//
//go:embed openapi.json
var Document []byte
