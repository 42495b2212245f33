package api

import _ "embed" // the document

// Document is the OpenAPI document, JSON.
//
//go:embed openapi.json
var Document []byte

// Sample is what a call sells, JSON: an answer that was signed with a published test key, what it
// answers, and the key document.
//
//go:embed sample.json
var Sample []byte
