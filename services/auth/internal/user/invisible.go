package user

import "unicode"

// hasInvisible reports whether a text has control characters, line breaks, or other characters that cannot be seen and
// may hide or reorder the visible ones (general category Cf, and Unicode's Other_Default_Ignorable_Code_Point).
// A joiner or non-joiner between two letters or emoji does not count: Persian, the scripts of India and families of
// emoji need them.
func hasInvisible(text string) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	runes := []rune(text)
	for i, r := range runes {
		joins := (r == nonJoiner || r == joiner) && 0 < i && i < len(runes)-1 &&
			unicode.In(runes[i-1], unicode.L, unicode.M, unicode.S) && unicode.In(runes[i+1], unicode.L, unicode.S)
		if !joins && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
			unicode.Other_Default_Ignorable_Code_Point) {
			return true
		}
	}
	return false
}
