// Package interop holds the tests that the log of receipts works together with other
// implementations of its formats, both ways: their clients read our log, their witness
// cosigns it, and our witness and readers take a log of theirs. It is a module of its
// own because of what that needs, and inside services/verifier because of what it tests.
//
// The others are filippo.io/torchwood (client, policy, proofs and the witness program
// litewitness) and transparency-dev's tessera (log, client, and the part of a log that
// asks witnesses) and formats. They share golang.org/x/mod/sumdb's notes with us;
// tessera's trees are github.com/transparency-dev/merkle.
package interop
