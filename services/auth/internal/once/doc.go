// Package once keeps two things of pages for some minutes: secrets, so that a page that shows one
// can be loaded again, and what forms led to, so that a form that is sent twice is carried out
// once. Both are in Redis (6 or later; alone, with Sentinel or as a Cluster), sealed with keys that
// Redis never gets: "<app>:once:<name>" with one that follows from the id of a session,
// "<app>:form:<hash>" with one that follows from the id in the form and all that was sent.
package once
