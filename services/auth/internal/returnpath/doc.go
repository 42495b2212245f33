// Package returnpath decides where a login may lead: to a path on the host that asks, never
// to another host. What it refuses is the class of open redirects (CWE-601).
package returnpath
