// Package checker judges everything that a reader has of a receipt at once, for the page
// that checks receipts in the browser: it recognises texts by their content and returns
// what is proven, by what, and what is only attested.
//
// It uses no network and no clock. It cannot know whether the reader trusts the key
// document, the policy and the checkpoint: the report holds if they do.
//
// Folder wasm is a WebAssembly program of it; the command in folder page writes the page
// around that program as one file.
package checker
