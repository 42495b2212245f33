package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds nesting; a receipt nests four deep.
const maxDepth = 16

// Canonical returns the bytes that are signed: the receipt as RFC 8785 (JCS) has
// it. A receipt that the format does not allow is refused (ErrMalformed).
func Canonical(r Receipt) ([]byte, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	return canonical(r)
}

func canonical(r Receipt) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode receipt: %w", err)
	}
	return Canonicalize(text)
}

// Canonicalize brings a JSON document into its one canonical form (RFC 8785),
// whatever its white space, order of members and escapes. It accepts the part
// of JSON where every tool agrees on that form: printable ASCII text, integers
// from 0 to 2^53-1 written as such, no member twice. All else is ErrMalformed.
func Canonicalize(data []byte) ([]byte, error) {
	if err := scan(data); err != nil {
		return nil, err
	}
	value := jsontext.Value(bytes.Clone(data))
	if err := value.Canonicalize(); err != nil {
		return nil, malformed("not JSON: %v", err)
	}
	return value, nil
}

func scan(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return malformed("not JSON: %v", err)
		}
		if err := scanToken(token); err != nil {
			return err
		}
		if d.StackDepth() > maxDepth {
			return malformed("nests deeper than %d", maxDepth)
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return malformed("something follows the JSON value")
	}
	return nil
}

func scanToken(token jsontext.Token) error {
	switch token.Kind() {
	case '"':
		for _, char := range token.String() {
			if char < ' ' || char > '~' {
				return malformed("text is not printable ASCII")
			}
		}
	case '0':
		const maxSafe = 1<<53 - 1 // what every JSON tool keeps exactly
		text := token.String()
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n > maxSafe {
			return malformed("number is not an integer from 0 to 2^53-1")
		}
	}
	return nil
}
