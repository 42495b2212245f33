package web

import (
	"net/http"
	"net/url"
	"strings"
)

// FromOwnPage reports whether a form was sent by a page of this origin: by Sec-Fetch-Site, and where
// the browser sends none, as over plain http, by the host and port of Origin. It is false for a request
// with neither, because browsers send one with a POST.
//
// The host is the request's own, which the proxy passes on as the client sent it.
func FromOwnPage(r *http.Request) bool {
	sites, origins := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
	if len(sites) > 1 || len(origins) > 1 {
		return false
	}
	if len(sites) == 1 {
		return sites[0] == "same-origin"
	}
	if len(origins) == 0 {
		return false
	}
	page, err := url.Parse(strings.ToLower(origins[0]))
	if err != nil || page.Scheme != "http" && page.Scheme != "https" || page.Host == "" {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[page.Scheme]
	return strings.TrimSuffix(page.Host, port) == strings.TrimSuffix(strings.ToLower(r.Host), port)
}
