// Package release makes what is published: for every platform one archive with
// the programs, how to run them, a list of everything that was compiled in (SBOM,
// CycloneDX 1.6) and the licences of all of it, and the archives' checksums.
//
// The same programs, version and time give the same bytes. What is in a program is
// read from the program itself; a module whose licence is not recognized, or not
// one that we may give on, fails the release.
package release
