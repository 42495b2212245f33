// Package policy holds the rules about what users may open: applications, groups, app tokens, and the hand-over of a
// session to the host of an application.
//
// What it changes holds from the next request on: no session and no token holds a rule or a group, and every request
// to an application is compared with the stored ones. What the guard answers is decided by package access.
package policy
