package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// MaxHeader bounds a payment header, in bytes of base64, and the JSON object of DecodeObject.
const MaxHeader = 16 << 10

// Errors of Decode and DecodeObject.
var (
	ErrHeaderSize   = errors.New("payment header is empty or too large")
	ErrHeaderBase64 = errors.New("payment header is not base64 with the standard alphabet and padding")
)

// Encode returns v as a header value: base64 (RFC 4648 §4, the only alphabet
// official clients read) of its JSON.
func Encode(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode payment header: %w", err)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

// Decode reads a header value into v. Its errors are ErrHeaderSize, ErrHeaderBase64 or
// a *strictjson.Error. Members that v does not know are ignored, because the
// protocol allows clients to add some. A name that v knows must match exactly, and
// no name may come twice.
func Decode(header string, v any) error {
	if header == "" || len(header) > MaxHeader {
		return ErrHeaderSize
	}
	text, err := base64.StdEncoding.Strict().DecodeString(header)
	if err != nil || strings.ContainsAny(header, "\r\n") { // the decoder skips line ends
		return ErrHeaderBase64
	}
	return DecodeObject(text, v)
}

// DecodeObject reads a JSON object that came without base64 into v, by the rules of
// Decode. Its errors are ErrHeaderSize, if it is too large, or a *strictjson.Error.
func DecodeObject(object []byte, v any) error {
	if len(object) > MaxHeader {
		return ErrHeaderSize
	}
	return strictjson.Unmarshal(object, v, strictjson.Rules{AllowUnknown: true, AllowNull: true})
}
