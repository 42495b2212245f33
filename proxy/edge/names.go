package edge

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// names are names or, with a "*" at the end, beginnings of names.
type names []string

func (n names) has(name string) bool {
	for _, pattern := range n {
		begin, wildcard := strings.CutSuffix(pattern, "*")
		if name == pattern || wildcard && strings.HasPrefix(name, begin) {
			return true
		}
	}
	return false
}

// headerSet are whole names of headers in exact, and beginnings of names in begin, as headerName
// returns them.
type headerSet struct {
	exact map[string]bool
	// begin is sorted, and none of its entries begins with another, so a name can only begin with
	// the last entry that is not after it in the order.
	begin []string
}

// headerNames returns the set of patterns. A pattern with a "*" at its end is a beginning.
func headerNames(patterns []string) headerSet {
	s := headerSet{exact: map[string]bool{}}
	for _, p := range patterns {
		if begin, wildcard := strings.CutSuffix(p, "*"); wildcard {
			s.begin = append(s.begin, headerName(begin))
		} else {
			s.exact[headerName(p)] = true
		}
	}
	slices.Sort(s.begin)
	last := "\x00"
	s.begin = slices.DeleteFunc(s.begin, func(begin string) bool {
		if strings.HasPrefix(begin, last) {
			return true
		}
		last = begin
		return false
	})
	return s
}

func (s *headerSet) has(name string) bool {
	if s.exact[name] {
		return true
	}
	i, found := slices.BinarySearch(s.begin, name)
	return found || i > 0 && strings.HasPrefix(name, s.begin[i-1])
}

// headerName returns a header's name in lower case, with "-" for everything but letters and
// digits. Applications behind CGI, WSGI or PHP may not tell apart names for which it returns
// the same: lighttpd and Apache write "_" for "+" or "~" too.
func headerName(name string) string {
	b := []byte(name)
	for i, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			b[i] = c | 0x20
		case c < '0' || '9' < c && c < 'a' || 'z' < c:
			b[i] = '-'
		}
	}
	return string(b)
}

// withoutCookies returns the lines of a Cookie header without the cookies that
// are named. All others stay byte for byte. Quotes do not count: where an
// application allows a ";" in them, a cookie of ours could hide between two.
func withoutCookies(lines []string, named names) []string {
	var rest []string
	for _, line := range lines {
		var kept []string
		parts := strings.Split(line, ";")
		for _, part := range parts {
			name, _, _ := strings.Cut(part, "=")
			if !named.has(strings.TrimSpace(name)) {
				kept = append(kept, part)
			}
		}
		if len(kept) != len(parts) {
			line = strings.TrimLeft(strings.Join(kept, ";"), " \t")
		}
		if line != "" {
			rest = append(rest, line)
		}
	}
	return rest
}

// withoutSetCookies returns the lines of a Set-Cookie header that set none of the
// cookies that are named. Where a cookie has no name, its value is read as the cookie:
// browsers send it so.
func withoutSetCookies(lines []string, named names) []string {
	var rest []string
	for _, line := range lines {
		name, _, _ := strings.Cut(strings.TrimLeft(line, "= \t"), "=")
		name, _, _ = strings.Cut(name, ";")
		if !named.has(strings.TrimSpace(name)) {
			rest = append(rest, line)
		}
	}
	return rest
}

// hasAppToken reports whether a value of Authorization has an app token in it, as it is or
// encoded in base64 or base64url.
func hasAppToken(value string) bool {
	if hasTokenAlone(value) {
		return true
	}
	// Quotes and spaces of any kind end a word: the service that the token is for trims those around it.
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return !inBase64(r) }) {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			// A word with a fault is decoded up to it: another decoder may accept the word.
			if decoded := make([]byte, encoding.DecodedLen(len(word))); len(word) > 0 {
				n, _ := encoding.Decode(decoded, []byte(word))
				if hasTokenAlone(string(decoded[:n])) {
					return true
				}
			}
		}
	}
	return false
}

// hasTokenAlone reports whether a word in a text begins as an app token does. A token of another
// kind may have the same four characters in the middle.
func hasTokenAlone(text string) bool {
	for rest := text; ; {
		before, after, found := strings.Cut(rest, appTokenBegin)
		if !found {
			return false
		}
		if before == "" && len(rest) == len(text) || before != "" && !inWord(before[len(before)-1]) {
			return true
		}
		rest = after
	}
}

// inWord reports whether c is a character of base64url or a dot, of which most tokens consist.
func inWord(c byte) bool {
	letter := c | 0x20
	return 'a' <= letter && letter <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// inBase64 reports whether r is a character of base64 or base64url, but for padding.
func inBase64(r rune) bool {
	return r == '+' || r == '/' || r < utf8.RuneSelf && r != '.' && inWord(byte(r))
}

// isToken reports whether a method, or a header's name, is a token (RFC 9110, section 5.6.2).
func isToken[S string | []byte](method S) bool {
	for i := range len(method) {
		c := method[i]
		if letter := c | 0x20; (letter < 'a' || 'z' < letter) && (c < '0' || '9' < c) &&
			strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return len(method) > 0
}

// lowerPath returns a path with the letters of ASCII in lower case: strings.ToLower would make an i of "\u0130", and
// browsers keep that apart.
func lowerPath(path string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c | 0x20
		}
		return c
	}, path)
}
