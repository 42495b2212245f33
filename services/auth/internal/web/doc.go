// Package web holds what the API and the pages do alike with a request: the session and its user,
// logging in and out, limits of attempts and requests, the origin of a form, who acts, the tables from
// errors to answers, the log of events, and the metrics. It writes headers and cookies, never a body.
package web
