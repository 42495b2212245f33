// Package verdict judges receipts in Go, as the packages in other languages do. Its tests
// have them judge the same documents, and thousands with one byte changed; the package in
// Python leaves out those about finality.
package verdict
