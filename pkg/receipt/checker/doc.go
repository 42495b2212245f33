// Package checker judges everything that a reader has of a receipt at once, for the page
// that checks receipts in the browser: it recognises texts by their content and returns
// what is proven, by what, and what is only attested, as data without sentences.
//
// It uses no network and no clock, and trusts none of the texts: who chose the key, the
// policy and the checkpoint is for the caller to say.
//
// Folder wasm holds it as a WebAssembly program, folder page the page around that, in
// one file.
package checker
