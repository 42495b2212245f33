// Package logging makes the structured logger of a program from its LOG_LEVEL.
//
// It owns the format (one JSON object a line) and the levels. What is logged is
// for the caller to choose, and never a password, cookie, token, session id,
// signature or payment header.
package logging
