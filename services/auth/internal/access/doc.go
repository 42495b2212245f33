// Package access decides about a request to an application behind the guard: whether it
// passes, is refused, or is led to a login.
//
// Decide is a pure function of the forwarded request, the application, the portal and the
// caller; it knows no HTTP server, no session store and no SQL. There are no rules by path
// here: what is public is a route of the proxy without the guard.
package access
