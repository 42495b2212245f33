// Package verdict judges receipts in Go, as the packages in other languages do. Its tests
// compare them with it on the same documents, and on thousands with one byte changed.
package verdict
