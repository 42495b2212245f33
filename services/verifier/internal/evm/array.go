package evm

import (
	"errors"
	"unsafe"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// array is a JSON array of objects. The budget counts text, so what is read must
// not outgrow it: "{}" is three bytes, and would be a transaction of 700. An
// element whose text is below half of its own size in memory is refused; honest
// ones have their hashes and addresses in them, which take more.
type array[T any] []T

var errThin = errors.New("element lacks most of its members")

// UnmarshalJSONFrom reads an array, or null as none.
func (l *array[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*l = nil
	opening, err := d.ReadToken()
	if err != nil || opening.Kind() == 'n' {
		return err
	}
	if opening.Kind() != '[' {
		return errors.New("not an array")
	}
	for d.PeekKind() != ']' {
		start := d.InputOffset()
		var element T
		if err := json.UnmarshalDecode(d, &element); err != nil {
			return err
		}
		if d.InputOffset()-start < int64(unsafe.Sizeof(element)/2) {
			return errThin
		}
		*l = append(*l, element)
	}
	_, err = d.ReadToken()
	return err
}
