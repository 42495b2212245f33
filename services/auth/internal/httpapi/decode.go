package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/pkg/service"
)

// maxBody bounds a request body, in bytes.
const maxBody = 64 << 10

var errMalformed = errors.New("body is not the expected JSON object")

// decode reads the body, one JSON object, into v, a pointer to a struct. Names match in
// their case and occur once; unknown names are ignored, and null means missing. A body of
// another media type is refused before it is read, so that a form of a foreign page
// cannot log a user in.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength > maxBody {
		return service.ErrBodyTooLarge
	}
	if r.ContentLength != 0 && !service.IsJSON(r.Header) {
		return service.ErrMediaType
	}
	body, err := service.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	if err := strictjson.Unmarshal(body, v, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}
