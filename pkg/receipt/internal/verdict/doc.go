// Package verdict judges receipts in Go, as the packages in other languages do. Its tests
// have all of them judge the same documents, and thousands with one byte changed.
package verdict
