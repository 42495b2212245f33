// Package access decides about a request to an application behind the guard: whether it
// passes, is refused, or is led to a login.
//
// Decide is a pure function of the request's headers, the application and the caller; it
// knows no HTTP server, no session store and no SQL. What is public is written before the
// guard in the proxy's routes: there are no rules by path here.
package access
