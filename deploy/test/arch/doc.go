// Package arch checks the rules of deploy/docs/architecture.md: which way imports
// run, which packages may import an outside library, that pages and comments
// name what exists, and what no file may contain.
//
// Each rule is a function from what is there to the faults in it, so that each
// is tested on a small project that breaks it. When a fault is right and the rule
// is wrong, change the rule here and write an ADR.
package arch
