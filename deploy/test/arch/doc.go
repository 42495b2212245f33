// Package arch checks the rules of deploy/docs/architecture.md: which way imports
// run, which packages may import an outside library, that pages and comments
// name what exists, and what no file may contain.
//
// Most rules are a function from what is there to the faults in it, which is tested
// on a small project that breaks the rule. When what breaks a rule is right, change
// the rule here and write an ADR.
package arch
