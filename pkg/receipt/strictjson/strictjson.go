// Package strictjson reads JSON from outside so that two programs cannot
// understand it differently: names match exactly and in their case, no name comes
// twice (as RFC 7493 requires), text is valid UTF-8, and nothing follows the value.
// Unknown names and null are errors too, unless Rules allow them.
//
// encoding/json takes the last of two equal names and matches names in any
// case, so that a value judged here could be another one to the next reader.
package strictjson

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how many levels deep a document may nest.
const maxDepth = 64

// Rules loosen the reading where a contract allows it. The zero value is the
// strictest.
type Rules struct {
	// AllowUnknown ignores members that the target has no field for.
	AllowUnknown bool
	// AllowNull allows null anywhere but as the whole document. Null sets a field to zero,
	// unless the field's type reads null itself.
	AllowNull bool
}

// Error is what is wrong with a document and where. It never quotes values of
// the document, only names.
type Error struct {
	// Pointer is the RFC 6901 pointer to the value at fault; "" is the whole
	// document, or a fault that is found without a pointer.
	Pointer string
	// Reason is what is wrong, for people.
	Reason string
}

// maxPointer is how many bytes of a pointer the text of an error has at most.
const maxPointer = 500

// Error returns the pointer, of a long one the beginning, and the reason. Errors are logged, and the names in a
// pointer may be as long as the document.
func (e *Error) Error() string {
	at := e.Pointer
	switch {
	case at == "":
		return e.Reason
	case len(at) > maxPointer:
		at = strings.ToValidUTF8(at[:maxPointer], "") + "…"
	}
	return at + ": " + e.Reason
}

// Field returns the pointer as a dotted path, "expectations.from", for the "field" member of an
// error answer.
func (e *Error) Field() string {
	path := strings.ReplaceAll(strings.TrimPrefix(e.Pointer, "/"), "/", ".")
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(path)
}

// Unmarshal reads one JSON value into v, a pointer. Every error is an *Error, and v
// then has no defined content.
func Unmarshal(data []byte, v any, rules Rules) error {
	unknown := json.RejectUnknownMembers(!rules.AllowUnknown)
	// Plain data is read in one pass. Where that fails, the reading below finds the fault again, with
	// its pointer.
	if isPlain(data, rules) && json.Unmarshal(data, v, unknown) == nil {
		return nil
	}
	if err := scan(data, rules); err != nil {
		return err
	}
	// No name comes twice: to look again would take a map of the names of each object.
	err := json.Unmarshal(data, v, unknown, jsontext.AllowDuplicateNames(true))
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return &Error{Reason: "cannot be read"}
	}
	fault := &Error{Pointer: string(semantic.JSONPointer)}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		fault.Reason = "is not known"
	case errors.Is(err, strconv.ErrRange):
		fault.Reason = "is out of range"
	default:
		fault.Reason = wanted(semantic.GoType)
	}
	return fault
}

// wanted says what JSON has to be for a type of Go. Of a type that reads JSON by itself it cannot.
func wanted(t reflect.Type) string {
	const unsaid = "has the wrong type"
	if t == nil || t.Implements(textReader) || reflect.PointerTo(t).Implements(textReader) {
		return unsaid
	}
	switch t.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "must be an integer"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Slice:
		return "must be an array"
	case reflect.Struct, reflect.Map:
		return "must be an object"
	default:
		return unsaid
	}
}

var textReader = reflect.TypeFor[encoding.TextUnmarshaler]()

// isPlain reports whether data clearly has no null that the rules refuse, and too few brackets to
// nest too deep. Where it returns false, scan decides.
func isPlain(data []byte, rules Rules) bool {
	null := []byte("null")
	if rules.AllowNull && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), null) ||
		!rules.AllowNull && bytes.Contains(data, null) {
		return false
	}
	return bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= maxDepth
}

// scan checks grammar, names that come twice, nulls and nesting, and returns an *Error for
// the first fault.
func scan(data []byte, rules Rules) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for tokens := 0; ; tokens++ {
		token, err := d.ReadToken()
		if err != nil {
			return syntaxFault(err, tokens)
		}
		if token.Kind() == 'n' && (!rules.AllowNull || d.StackDepth() == 0) {
			return &Error{Pointer: string(d.StackPointer()), Reason: "must not be null"}
		}
		if d.StackDepth() > maxDepth {
			return &Error{Reason: fmt.Sprintf("nests deeper than %d", maxDepth)}
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{Reason: "something follows the JSON value"}
	}
	return nil
}

func syntaxFault(err error, tokens int) error {
	if errors.Is(err, io.EOF) && tokens == 0 {
		return &Error{Reason: "is empty"}
	}
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return &Error{Reason: "is not JSON"}
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return &Error{Pointer: string(syntactic.JSONPointer), Reason: "comes twice"}
	}
	return &Error{Reason: fmt.Sprintf("is not JSON (at byte %d)", syntactic.ByteOffset)}
}
