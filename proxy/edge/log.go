package edge

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap/zapcore"
)

// LogCore writes Caddy's log to the standard error as JSON, without what may hold
// a secret: headers, and the queries of request URIs. A logger's fields are encoded
// with its entries: reverse_proxy makes a logger with each request, as a rule for none.
type LogCore struct {
	zapcore.Core `json:"-"`
	// Level is the least level that is written.
	Level string `json:"level,omitempty"`

	fields []zapcore.Field
}

// CaddyModule returns the Caddy module information.
func (LogCore) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.cores.edge", New: func() caddy.Module { return new(LogCore) }}
}

// UnmarshalCaddyfile reads: core edge <level>.
func (c *LogCore) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&c.Level) {
		return d.ArgErr()
	}
	return nil
}

// Provision implements caddy.Provisioner.
func (c *LogCore) Provision(ctx caddy.Context) error {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return fmt.Errorf("log core edge: %w", err)
	}
	json := new(logging.JSONEncoder)
	if err := json.Provision(ctx); err != nil {
		return fmt.Errorf("log core edge: %w", err)
	}
	c.Core = zapcore.NewCore(json, os.Stderr, level)
	return nil
}

// With implements zapcore.Core.
func (c *LogCore) With(fields []zapcore.Field) zapcore.Core {
	return &LogCore{Core: c.Core, fields: slices.Concat(c.fields, fields)}
}

// Check implements zapcore.Core.
func (c *LogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *LogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	all := slices.DeleteFunc(slices.Concat(c.fields, fields), func(f zapcore.Field) bool { return isHeader(f.Key) })
	for i, f := range all {
		if f.Type == zapcore.StringType && f.Key == uriKey {
			all[i].String = withoutQuery(f.String)
		}
		// an error or a Stringer may be an object too
		if f.Type == zapcore.ObjectMarshalerType || f.Type == zapcore.InlineMarshalerType {
			object := f.Interface.(zapcore.ObjectMarshaler)
			all[i].Interface = zapcore.ObjectMarshalerFunc(func(e zapcore.ObjectEncoder) error {
				return object.MarshalLogObject(withoutSecrets{e})
			})
		}
	}
	return c.Core.Write(entry, all)
}

func isHeader(key string) bool { return key == "headers" || key == "resp_headers" }

// uriKey is the key of a field that is a request URI.
const uriKey = "uri"

func withoutQuery(uri string) string {
	if path, _, query := strings.Cut(uri, "?"); query {
		return path + "?-"
	}
	return uri
}

// withoutSecrets passes on what may be logged of an object.
type withoutSecrets struct{ zapcore.ObjectEncoder }

// AddObject implements zapcore.ObjectEncoder.
func (e withoutSecrets) AddObject(key string, value zapcore.ObjectMarshaler) error {
	if isHeader(key) {
		return nil
	}
	return e.ObjectEncoder.AddObject(key, value)
}

// AddString implements zapcore.ObjectEncoder.
func (e withoutSecrets) AddString(key, value string) {
	if key == uriKey {
		value = withoutQuery(value)
	}
	e.ObjectEncoder.AddString(key, value)
}

var (
	_ caddy.Provisioner     = (*LogCore)(nil)
	_ caddyfile.Unmarshaler = (*LogCore)(nil)
)
