// Package config reads a program's settings from its environment into one
// documented struct.
//
// A setting is a struct field:
//
//	Addr   string        `env:"ADDR" default:":8081" doc:"address to serve on"`
//	Secret string        `env:"SESSION_SECRET,required" secret:"true" doc:"signs the cookies"`
//	Window time.Duration `env:"WINDOW" default:"1m" limit:"true" doc:"length of the window"`
//
// An empty variable counts as unset. A secret NAME may come as NAME_FILE, the
// path of a file that holds it. A limit that is zero, negative or no number
// means its default. All errors are returned at once, never with the value of
// a secret.
//
// What a setting means is for the program, whose struct may have a Validate
// method.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// maxSecretFile bounds what is read from a NAME_FILE, in bytes.
const maxSecretFile = 64 << 10

// Load fills a new T from getenv, such as os.Getenv or a test's map. It
// returns all errors that it finds, joined into one with a line each. When *T has
// a Validate() error method, its errors are among them. It is called even if a
// setting could not be read, which is then zero or its default; its error for such
// a setting ("NAME: …") is left out.
func Load[T any](getenv func(string) string) (T, error) {
	var cfg T
	fields := settings(reflect.TypeFor[T]())
	values, errs := collect(fields, getenv)
	add := func(found []error) {
		earlier := errs
		for _, err := range found {
			if !isReported(err, earlier) {
				errs = append(errs, err)
			}
		}
	}
	unread := split(env.ParseWithOptions(&cfg, env.Options{Environment: values, DefaultValueTagName: "default"}))
	for i, err := range unread {
		unread[i] = explain(err, fields, values)
	}
	add(unread)
	if v, ok := any(&cfg).(interface{ Validate() error }); ok {
		add(split(v.Validate()))
	}
	return cfg, errors.Join(errs...)
}

// split takes joined errors apart.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.Clone(joined.Unwrap())
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// setting is one documented field of a config struct.
type setting struct {
	key, field, def, doc      string
	required, secret, isLimit bool
	kind                      reflect.Type
}

// settings lists the fields of t that carry an env tag, in order, looking into
// embedded and nested structs.
func settings(t reflect.Type) []setting {
	var list []setting
	for f := range t.Fields() {
		tag, ok := f.Tag.Lookup("env")
		if !ok {
			if f.Type.Kind() == reflect.Struct {
				list = append(list, settings(f.Type)...)
			}
			continue
		}
		key, options, _ := strings.Cut(tag, ",")
		list = append(list, setting{
			key: key, field: f.Name, def: f.Tag.Get("default"), doc: f.Tag.Get("doc"), kind: f.Type,
			required: strings.Contains(options, "required"),
			secret:   f.Tag.Get("secret") == "true",
			isLimit:  f.Tag.Get("limit") == "true",
		})
	}
	return list
}

// collect reads the environment of all settings. Empty variables and unusable
// limits are left out, so that their defaults apply.
func collect(fields []setting, getenv func(string) string) (map[string]string, []error) {
	values := make(map[string]string, len(fields))
	var errs []error
	for _, s := range fields {
		value := getenv(s.key)
		if file := getenv(s.key + "_FILE"); s.secret && file != "" {
			content, err := readSecret(s.key, value, file)
			if err != nil {
				errs = append(errs, err)
			}
			value = content
		}
		if value != "" && (!s.isLimit || usableLimit(s.kind, value)) {
			values[s.key] = value
		}
	}
	return values, errs
}

func readSecret(key, value, path string) (string, error) {
	if value != "" {
		return "", fmt.Errorf("%s: both %s and %s_FILE are set", key, key, key)
	}
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", key, err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s_FILE: %w", key, err)
	case len(content) > maxSecretFile:
		return "", fmt.Errorf("%s_FILE: %s is larger than %d bytes", key, path, maxSecretFile)
	case len(bytes.TrimSpace(content)) == 0:
		return "", fmt.Errorf("%s_FILE: %s is empty", key, path)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// usableLimit reports whether value is a positive number, or duration, of its kind.
func usableLimit(kind reflect.Type, value string) bool {
	if kind == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(value)
		return err == nil && d > 0
	}
	n, err := strconv.ParseInt(value, 10, kind.Bits())
	return err == nil && n > 0
}

// explain turns an error of the library into one with the name of the variable, which has one of the values.
func explain(err error, fields []setting, values map[string]string) error {
	var missing env.VarIsNotSetError
	if errors.As(err, &missing) {
		return fmt.Errorf("%s: is required", missing.Key)
	}
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	for _, s := range fields {
		switch {
		case s.field != parse.Name:
		case s.secret:
			return fmt.Errorf("%s: cannot be read", s.key)
		case s.kind == reflect.TypeFor[time.Duration]():
			return fmt.Errorf("%s: %q is not a duration, such as 90s, 15m or 168h", s.key, values[s.key])
		default:
			return fmt.Errorf("%s: %w", s.key, parse.Err)
		}
	}
	return err
}

// isReported reports whether one of the earlier errors names the same variable: a
// secret whose file cannot be read is not also "required".
func isReported(err error, earlier []error) bool {
	key, _, _ := strings.Cut(err.Error(), ":")
	return slices.ContainsFunc(earlier, func(e error) bool {
		name, _, _ := strings.Cut(e.Error(), ":")
		return strings.TrimSuffix(name, "_FILE") == key
	})
}

// Table returns the settings of T as a markdown table, which a README holds and
// a test compares.
func Table[T any]() string {
	var b strings.Builder
	b.WriteString("| Setting | Default | Meaning |\n|---|---|---|\n")
	for _, s := range settings(reflect.TypeFor[T]()) {
		name, def := "`"+s.key+"`", ""
		if s.secret {
			name += " (or `" + s.key + "_FILE`)"
		}
		switch {
		case s.required:
			def = "required"
		case s.def != "":
			def = "`" + s.def + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, def, strings.ReplaceAll(s.doc, "|", "\\|"))
	}
	return b.String()
}
