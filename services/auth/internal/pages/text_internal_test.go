package pages

import (
	"reflect"
	"regexp"
	"testing"
)

var verb = regexp.MustCompile(`%[a-z]`)

// TestBothLanguagesSayEverything also compares what is filled in.
func TestBothLanguagesSayEverything(t *testing.T) {
	de, en := reflect.ValueOf(german), reflect.ValueOf(english)
	var compare func(name string, a, b reflect.Value)
	compare = func(name string, a, b reflect.Value) {
		switch a.Kind() {
		case reflect.String:
			if a.String() == "" || b.String() == "" {
				t.Errorf("%s is empty in a language", name)
			}
			if g, e := verb.FindAllString(a.String(), -1), verb.FindAllString(b.String(), -1); !reflect.DeepEqual(g, e) {
				t.Errorf("%s: %v in German, %v in English", name, g, e)
			}
		case reflect.Array:
			for i := range a.Len() {
				compare(name, a.Index(i), b.Index(i))
			}
		case reflect.Map:
			if a.Len() != b.Len() {
				t.Errorf("%s: %d in German, %d in English", name, a.Len(), b.Len())
			}
			for _, key := range a.MapKeys() {
				if other := b.MapIndex(key); other.IsValid() {
					compare(name, a.MapIndex(key), other)
				} else {
					t.Errorf("%s: %s is missing in English", name, key)
				}
			}
		default:
			t.Errorf("%s is no text", name)
		}
	}
	for i := range de.NumField() {
		compare(de.Type().Field(i).Name, de.Field(i), en.Field(i))
	}
}
