// Package suite measures Pforte beside servers that do the same with the usual
// packages, and beside itself with more work, and writes what it finds as a
// page.
//
// Compared servers run at the same time and are asked in turn, A B A B, so that
// a machine that becomes slower does so for both. A figure is the median of the
// rounds with the least and the greatest.
package suite
