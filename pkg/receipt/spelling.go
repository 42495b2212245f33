package receipt

import (
	"encoding/base64"
	"math/big"
	"strconv"
	"strings"
)

// lowerHex reports whether text is 0x and lower-case hexadecimal digits for size
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

// quantity reports whether text is a decimal number without a sign or leading
// zeros that fits into so many bits.
func quantity(text string, bits int) bool {
	const most = 78 // digits of 2^256
	if text == "" || len(text) > most || len(text) > 1 && text[0] == '0' {
		return false
	}
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			return false
		}
	}
	n, ok := new(big.Int).SetString(text, 10)
	return ok && n.BitLen() <= bits
}

// more compares two quantities.
func more(a, b string) bool {
	return len(a) > len(b) || len(a) == len(b) && a > b
}

// transactionType reports whether text is an EIP-2718 type, 0x0 to 0x7f, without
// leading zeros.
func transactionType(text string) bool {
	if len(text) < 3 || text[:2] != "0x" {
		return false
	}
	n, err := strconv.ParseUint(text[2:], 16, 8)
	return err == nil && n <= 0x7f && text == typeText(byte(n))
}

func typeText(kind byte) string { return "0x" + strconv.FormatUint(uint64(kind), 16) }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func keyIDSpelling(text string) bool {
	digest, ok := strings.CutPrefix(text, "sha256:")
	return ok && lowerHex("0x"+digest, 32)
}

// decodeBase64 reads base64 with padding (RFC 4648 section 4) in its one spelling.
// Go's decoder passes over line ends, strict or not.
func decodeBase64(text string) (data []byte, ok bool) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	return data, err == nil && base64.StdEncoding.EncodeToString(data) == text
}
