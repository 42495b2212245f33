// Package retryafter reads the header Retry-After of HTTP answers (RFC 9110, section
// 10.2.3).
package retryafter

import (
	"net/http"
	"strconv"
	"time"
)

// Read returns for how long the sender of h wants no requests, between a second and
// longest; usual when h has no Retry-After that can be read.
func Read(h http.Header, now time.Time, usual, longest time.Duration) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(max(time.Duration(seconds)*time.Second, time.Second), longest)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), time.Second), longest)
	}
	return usual
}
