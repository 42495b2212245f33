// Package policy holds the rules about what users may open: applications and their routes, groups, app tokens, and the
// hand-over of a session to the host of an application.
//
// What it changes holds from the next request on, and within a second in other replicas: no session and no token holds
// a rule or a group, and every request to an application is compared with them. A route holds once a proxy has asked
// for it. What the guard answers is decided by package access.
package policy
