// Package arch holds the house to deploy/docs/architecture.md: which way
// imports run, in which room an outside library lives, how long a file may be,
// and what no file may say.
//
// Each rule is a function from what is there to the faults in it, so that each
// is tested on a small house that breaks it. When a fault is right and the rule
// is wrong, change the rule here and say why in an ADR.
package arch
