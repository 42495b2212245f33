package edge

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// LogEncoder is Caddy's JSON encoder without what may hold a secret: headers, and
// the queries of request URIs. Objects are encoded with the entry that has
// them: reverse_proxy makes a logger with each request, as a rule for no entry.
type LogEncoder struct {
	zapcore.Encoder `json:"-"`
	objects         []logObject
}

type logObject struct {
	key   string
	value zapcore.ObjectMarshaler
}

// CaddyModule returns the Caddy module information.
func (LogEncoder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.encoders.edge", New: func() caddy.Module { return new(LogEncoder) }}
}

// Provision implements caddy.Provisioner.
func (e *LogEncoder) Provision(ctx caddy.Context) error {
	json := new(logging.JSONEncoder)
	if err := json.Provision(ctx); err != nil {
		return fmt.Errorf("log encoder edge: %w", err)
	}
	e.Encoder = json
	return nil
}

// UnmarshalCaddyfile reads: format edge.
func (*LogEncoder) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() || d.NextBlock(0) {
		return d.ArgErr()
	}
	return nil
}

// Clone implements zapcore.Encoder.
func (e *LogEncoder) Clone() zapcore.Encoder {
	return &LogEncoder{e.Encoder.Clone(), append([]logObject(nil), e.objects...)}
}

// AddObject implements zapcore.ObjectEncoder.
func (e *LogEncoder) AddObject(key string, value zapcore.ObjectMarshaler) error {
	e.objects = append(e.objects, logObject{key, value})
	return nil
}

// OpenNamespace implements zapcore.ObjectEncoder.
func (e *LogEncoder) OpenNamespace(key string) {
	for _, o := range e.objects {
		_ = withoutSecrets{e.Encoder}.AddObject(o.key, o.value) // into memory
	}
	e.objects = nil
	e.Encoder.OpenNamespace(key)
}

// EncodeEntry implements zapcore.Encoder.
func (e *LogEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	json := e.Encoder.Clone()
	encoder := withoutSecrets{json}
	for _, o := range e.objects {
		if err := encoder.AddObject(o.key, o.value); err != nil {
			return nil, fmt.Errorf("log: %s: %w", o.key, err)
		}
	}
	for _, f := range fields {
		f.AddTo(encoder)
	}
	return json.EncodeEntry(entry, nil)
}

// withoutSecrets passes on what may be logged.
type withoutSecrets struct{ zapcore.ObjectEncoder }

// AddObject implements zapcore.ObjectEncoder.
func (e withoutSecrets) AddObject(key string, value zapcore.ObjectMarshaler) error {
	if key == "headers" || key == "resp_headers" {
		return nil
	}
	return e.ObjectEncoder.AddObject(key, zapcore.ObjectMarshalerFunc(func(inner zapcore.ObjectEncoder) error {
		return value.MarshalLogObject(withoutSecrets{inner})
	}))
}

// AddString implements zapcore.ObjectEncoder.
func (e withoutSecrets) AddString(key, value string) {
	if path, _, query := strings.Cut(value, "?"); query && key == "uri" {
		value = path + "?-"
	}
	e.ObjectEncoder.AddString(key, value)
}

var (
	_ caddy.Provisioner     = (*LogEncoder)(nil)
	_ caddyfile.Unmarshaler = (*LogEncoder)(nil)
	_ zapcore.Encoder       = (*LogEncoder)(nil)
)
