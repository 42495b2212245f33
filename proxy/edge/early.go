package edge

import (
	"bytes"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxKnown is for how many routes a refusal is kept at once. There must be a bound, because
	// clients choose paths.
	maxKnown = 256
	// maxRoute is how long a route may be, as appendRoute writes it, in bytes.
	maxRoute = 256
	// passEvery is the longest time for which all requests of a connection may be refused early. The
	// next one is passed to net/http, because only net/http renews the deadlines of the connection.
	passEvery = 5 * time.Second
)

// refusals are the answers to requests that a service had no place for, by their
// route. While the service has no place, a request of the same route may be answered
// as soon as its bytes are here, before net/http and Caddy see it: what they do costs
// more than the answer, and in an overload most requests are refused.
type refusals struct {
	mu    sync.RWMutex
	known map[string]*refusal
}

// refusal is the answer to a request of one route, without its id.
type refusal struct {
	service    *Service
	cookies    names
	head, tail []byte
}

// add notes how a service refused a request. It does not where the next request of the same
// route may have to get another answer: behind a guard; or if the answer has a header that
// may be about this request, as a cookie or Access-Control-Allow-Origin. Nor does it for a
// request over TLS, whose route may be another without TLS; for a HEAD; for a request
// that gets a page; and for a route above maxRoute.
func (s *refusals) add(service *Service, x *exchange, header http.Header) {
	r, body := x.received, service.Refusal
	local, found := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !found || x.guarded || r.TLS != nil || r.Method == http.MethodHead || isNavigation(r.Method, r.Header) {
		return
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	route := appendRoute(nil, local.String(), r.Method, r.Host, path)
	if len(route) > maxRoute || s.of(route) != nil || !common(header, x.fields) {
		return
	}
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 503 Service Unavailable\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	// Into memory, and with net/http's care for what a value may hold.
	_ = header.WriteSubset(&head, map[string]bool{"X-Request-Id": true})
	head.WriteString("X-Request-Id: ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = map[string]*refusal{}
	}
	s.known[string(route)] = &refusal{
		service: service, cookies: x.cookies, head: head.Bytes(), tail: []byte("\r\n\r\n" + body),
	}
}

// common reports whether a refusal has only headers that every refusal or every answer has.
func common(header http.Header, fields []field) bool {
	others := len(header)
	for _, name := range []string{"X-Request-Id", "Content-Type", "Cache-Control", "Retry-After"} {
		if _, found := header[name]; found {
			others--
		}
	}
	for _, f := range fields {
		if slices.Equal(header[f.name], f.value) {
			others--
		}
	}
	return others == 0
}

// of returns the refusal of a route, or nil.
func (s *refusals) of(route []byte) *refusal {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[string(route)]
}

// to returns the answer to a request of a connection that is refused early, and counts it; else
// it returns nil.
func (s *refusals) to(q rawRequest, c *boundConn) []byte {
	var space [maxRoute]byte
	path, _, _ := bytes.Cut(q.target, []byte("?"))
	known := s.of(appendRoute(space[:0], c.local, q.method, q.host, path))
	if known == nil || c.trusted && len(q.lines("X-Forwarded-For")) > 0 { // from a client that only Caddy knows
		return nil
	}
	if q.isNavigation() { // who gets a page
		return nil
	}
	var user userKey
	if of := known.service; len(of.Known) > 0 {
		user = of.users.key(known.cookies, credentials{
			sent: q.lines("Cookie"), token: q.lines(AppToken), authorization: q.lines("Authorization"),
		})
	}
	g := known.service.gate(string(q.method), q.has, user, func() bool { return c.listener.crowds(c) })
	if !g.full(c.addr) {
		return nil
	}
	g.refused.add()
	return slices.Concat(known.head, []byte(requestID(string(q.id))), known.tail)
}

// appendRoute appends what a request is routed by. Each server of Caddy has an address
// of its own.
func appendRoute[M, H, P string | []byte](to []byte, local string, method M, host H, path P) []byte {
	to = append(append(to, local...), ' ')
	to = append(append(to, method...), ' ')
	to = append(append(to, host...), ' ')
	return append(to, path...)
}

// rawRequest is a request as it was sent. id is its X-Request-Id, and fields are the lines of its
// header after the first.
type rawRequest struct{ method, target, host, id, fields []byte }

// has reports whether the request has a header that is not empty.
func (q rawRequest) has(name string) bool {
	for line := range bytes.SplitSeq(q.fields, []byte("\r\n")) {
		if found, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(found, []byte(name)) &&
			len(bytes.Trim(value, " \t")) > 0 {
			return true
		}
	}
	return false
}

// lines returns the values of a header, one for each line.
func (q rawRequest) lines(name string) (values []string) {
	for line := range bytes.SplitSeq(q.fields, []byte("\r\n")) {
		if found, value, _ := bytes.Cut(line, []byte(":")); len(found) == len(name) && bytes.EqualFold(found,
			[]byte(name)) {
			values = append(values, string(bytes.Trim(value, " \t")))
		}
	}
	return values
}

// isNavigation reports what the function of the same name does of the request that net/http would make.
func (q rawRequest) isNavigation() bool {
	if !bytes.Contains(q.fields, []byte("navigate")) && !bytes.Contains(q.fields, []byte("text/html")) {
		return false
	}
	h := http.Header{}
	for line := range bytes.SplitSeq(q.fields, []byte("\r\n")) {
		if name, value, found := bytes.Cut(line, []byte(":")); found {
			h.Add(string(name), string(bytes.Trim(value, " \t")))
		}
	}
	return isNavigation(string(q.method), h)
}

// framing follows the requests of a connection by their lengths (RFC 9112, section 6), in
// what each read returned. Where it may see another end of a request than net/http would,
// it is lost, and stays so.
type framing struct {
	lost bool
	// rest is how many bytes of a body are still to come.
	rest int64
	// begun is the beginning of a request that net/http has read before the rest: one byte while it
	// answers the previous request, and of the first request enough to tell that it is not HTTP/2.
	begun []byte
}

// maxBegun is how many bytes without the end of a header are taken for a beginning. net/http reads
// fewer before the rest.
const maxBegun = 32

// read follows what one read returned, and reports whether that is a request, whole and alone.
func (f *framing) read(p []byte) (q rawRequest, whole bool) {
	switch {
	case f.lost || len(p) == 0:
		return rawRequest{}, false
	case f.rest > 0:
		f.rest -= int64(len(p))
		f.lost = f.rest < 0
		return rawRequest{}, false
	}
	before := len(f.begun)
	if before > 0 {
		p = append(f.begun, p...)
	}
	if len(p) <= maxBegun && !bytes.Contains(p, headerEnd) {
		f.begun = bytes.Clone(p)
		return rawRequest{}, false
	}
	f.begun = nil
	q, length, ok := parseRequest(p)
	f.rest, f.lost = length-int64(len(p)), !ok || length < int64(len(p))
	return q, ok && before == 0 && f.rest == 0
}

// headerEnd ends the header of a request.
var headerEnd = []byte("\r\n\r\n")

// maxLength is the longest Content-Length that parseRequest accepts.
const maxLength = 1 << 40

// parseRequest returns the request that begins p, and its length with its body. If ok is true,
// every server finds the same end of it: its whole header is in p, it is HTTP/1.1 in the
// strictest syntax, and it has no body but one with a Content-Length.
func parseRequest(p []byte) (q rawRequest, length int64, ok bool) {
	end := bytes.Index(p, headerEnd)
	if end < 0 {
		return q, 0, false
	}
	line, rest, _ := bytes.Cut(p[:end+2], []byte("\r\n"))
	q.method, line, _ = bytes.Cut(line, []byte(" "))
	q.target, line, _ = bytes.Cut(line, []byte(" "))
	if !isToken(q.method) || string(q.method) == http.MethodConnect || len(q.target) == 0 || q.target[0] != '/' ||
		string(line) != "HTTP/1.1" || bytes.ContainsAny(q.target, "\r\n") {
		return q, 0, false
	}
	q.fields = rest
	body := int64(-1)
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || !isToken(name) || bytes.ContainsAny(value, "\r\n\x00") {
			return q, 0, false
		}
		value = bytes.Trim(value, " \t")
		switch {
		case bytes.EqualFold(name, []byte("Host")):
			if q.host != nil || len(value) == 0 {
				return q, 0, false
			}
			q.host = value
		case bytes.EqualFold(name, []byte("X-Request-Id")):
			if q.id != nil { // Caddy would join them
				return q, 0, false
			}
			q.id = value
		case bytes.EqualFold(name, []byte("Content-Length")):
			n, err := strconv.ParseUint(string(value), 10, 64)
			if body >= 0 || err != nil || n > maxLength {
				return q, 0, false
			}
			body = int64(n)
		case bytes.EqualFold(name, []byte("Connection")):
			if !bytes.EqualFold(value, []byte("keep-alive")) {
				return q, 0, false
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")), bytes.EqualFold(name, []byte("Upgrade")),
			bytes.EqualFold(name, []byte("Expect")), bytes.EqualFold(name, []byte("Trailer")):
			return q, 0, false
		}
	}
	return q, int64(end) + 4 + max(body, 0), q.host != nil
}
