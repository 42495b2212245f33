package edge

import "strings"

// names are names, or beginnings of names with a "*" behind them.
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

// headerNames returns patterns that has compares with a headerName.
func headerNames(patterns []string) names {
	all := make(names, len(patterns))
	for i, p := range patterns {
		begin, wildcard := strings.CutSuffix(p, "*")
		all[i] = headerName(begin)
		if wildcard {
			all[i] += "*"
		}
	}
	return all
}

// headerName returns what applications behind CGI, WSGI or PHP make of a header's
// name, where everything but letters and digits is one: lighttpd and Apache write
// "_" for "+" or "~" too.
func headerName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || '9' < r && r < 'a' || 'z' < r {
			return '-'
		}
		return r
	}, strings.ToLower(name))
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
// cookies that are named. A browser sends a cookie without a name as its value
// alone, which then reads like another cookie.
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
