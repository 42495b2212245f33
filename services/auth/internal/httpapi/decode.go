package httpapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// maxBody bounds a request body, in bytes.
const maxBody = 64 << 10

// Errors of a body before its fields are checked.
var (
	errMediaType = errors.New("body is not application/json")
	errTooLarge  = fmt.Errorf("body is larger than %d bytes", maxBody)
	errMalformed = errors.New("body is not the expected JSON object")
)

// decode reads the body, one JSON object, into v, a pointer to a struct. Names match in
// their case and occur once; unknown names are ignored, and null means missing. A body of
// another media type is refused before it is read, so that a form of a foreign page
// cannot log a user in.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength > maxBody {
		return errTooLarge
	}
	if r.ContentLength != 0 && !isJSON(r.Header) {
		return errMediaType
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errTooLarge
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	if err := strictjson.Unmarshal(body, v, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}

// isJSON reports whether the headers announce plain JSON.
func isJSON(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return false
	}
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && mediaType == "application/json"
}
