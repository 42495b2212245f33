package user

import "unicode"

// hasInvisible reports whether a text has control characters, line breaks, or others that are not seen and hide or
// reorder what is (general category Cf, and the fillers among letters). A joiner or non-joiner between two letters or
// emoji is none: Persian, the scripts of India and families of emoji need them.
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
