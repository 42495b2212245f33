package receipt

import "crypto/ed25519"

func (r Receipt) validate() error { return nil }

func (d KeyDocument) validate() error { return nil }

func (k Key) public() (ed25519.PublicKey, error) { return parsePublic(k.PublicKey) }

// lowerHex tells whether text is 0x and lower-case hexadecimal digits for size
// bytes; a size of -1 means any whole number of bytes.
func lowerHex(text string, size int) bool {
	if len(text) < 2 || len(text)%2 != 0 || text[:2] != "0x" || size >= 0 && len(text) != 2+2*size {
		return false
	}
	for _, digit := range text[2:] {
		if (digit < '0' || digit > '9') && (digit < 'a' || digit > 'f') {
			return false
		}
	}
	return true
}
