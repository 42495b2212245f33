// Package api holds the description of the verifier's interface: openapi.json,
// an OpenAPI 3.1 document. The verifier serves it with its own address, price
// and the paths of its chains.
package api
