// Package picture makes pictures that users send into ones that are safe to show: decoded within bounds and encoded
// anew, so that nothing of the file is kept but what is seen. There is no SVG, which is a document with scripts.
package picture
