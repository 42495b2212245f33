// Package api holds the description of the verifier's interface: openapi.json,
// an OpenAPI 3.1 document, and a sample of what is sold. The verifier serves the
// document with its own address, price and the paths of its chains.
package api
