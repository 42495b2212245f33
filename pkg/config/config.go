package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// maxSecretFile bounds what is read from a NAME_FILE, in bytes.
const maxSecretFile = 64 << 10

// Load fills a new T from getenv, which is os.Getenv or a test's map. It
// reports every fault it finds, joined into one error with one line each. When
// *T has a Validate() error method, its faults are reported with the others: it
// is asked even if a setting could not be read, which is then left zero, and
// what it says of such a setting ("NAME: …") is left out.
func Load[T any](getenv func(string) string) (T, error) {
	var cfg T
	fields := settings(reflect.TypeFor[T]())
	values, faults := collect(fields, getenv)
	err := env.ParseWithOptions(&cfg, env.Options{Environment: values, DefaultValueTagName: "default"})
	faults = append(faults, explain(err, fields, faults)...)
	if v, ok := any(&cfg).(interface{ Validate() error }); ok {
		for _, fault := range split(v.Validate()) {
			if !alreadySaid(fault, faults) {
				faults = append(faults, fault)
			}
		}
	}
	return cfg, errors.Join(faults...)
}

// split takes joined errors apart.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
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
	var faults []error
	for _, s := range fields {
		value := getenv(s.key)
		if file := getenv(s.key + "_FILE"); s.secret && file != "" {
			content, err := readSecret(s.key, value, file)
			if err != nil {
				faults = append(faults, err)
			}
			value = content
		}
		if value != "" && (!s.isLimit || usableLimit(s.kind, value)) {
			values[s.key] = value
		}
	}
	return values, faults
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

// usableLimit tells whether value is a positive number of its kind.
func usableLimit(kind reflect.Type, value string) bool {
	if kind == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(value)
		return err == nil && d > 0
	}
	n, err := strconv.ParseInt(value, 10, kind.Bits())
	return err == nil && n > 0
}

// explain turns the library's error into one fault a setting, naming the
// variable, and leaves out what earlier has said already.
func explain(err error, fields []setting, earlier []error) []error {
	var aggregate env.AggregateError
	if !errors.As(err, &aggregate) {
		if err != nil {
			return []error{err}
		}
		return nil
	}
	var faults []error
	for _, e := range aggregate.Errors {
		if fault := explainOne(e, fields); !alreadySaid(fault, earlier) {
			faults = append(faults, fault)
		}
	}
	return faults
}

func explainOne(err error, fields []setting) error {
	var missing env.VarIsNotSetError
	if errors.As(err, &missing) {
		return fmt.Errorf("%s: is required", missing.Key)
	}
	var parse env.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	for _, s := range fields {
		if s.field != parse.Name {
			continue
		}
		if s.secret {
			return fmt.Errorf("%s: cannot be read", s.key)
		}
		return fmt.Errorf("%s: %w", s.key, parse.Err)
	}
	return err
}

// alreadySaid tells whether an earlier fault speaks of the same variable: a
// secret whose file cannot be read is not also "required".
func alreadySaid(fault error, earlier []error) bool {
	key, _, _ := strings.Cut(fault.Error(), ":")
	for _, e := range earlier {
		if said, _, _ := strings.Cut(e.Error(), ":"); strings.TrimSuffix(said, "_FILE") == key {
			return true
		}
	}
	return false
}
