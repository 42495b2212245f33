// Package verdict is the check of the packages in other languages, in Go: what they are
// compared with. Its tests judge the same documents in each language, and thousands of
// documents with one byte changed.
package verdict
