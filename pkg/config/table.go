package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Table returns the settings of T as a markdown table, which a README holds and
// a test compares.
func Table[T any]() string {
	var b strings.Builder
	b.WriteString("| Setting | Default | Meaning |\n|---|---|---|\n")
	for _, s := range settings(reflect.TypeFor[T]()) {
		name := "`" + s.key + "`"
		if s.secret {
			name += " (or `" + s.key + "_FILE`)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, s.defaultText(), strings.ReplaceAll(s.doc, "|", "\\|"))
	}
	return b.String()
}

func (s setting) defaultText() string {
	switch {
	case s.required:
		return "required"
	case s.def == "":
		return ""
	default:
		return "`" + s.def + "`"
	}
}
