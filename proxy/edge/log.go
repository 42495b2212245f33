package edge

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap/zapcore"
)

// maxLogged is how many bytes of a text are logged.
const maxLogged = 1 << 10

// Log is Caddy's encoder json of log lines, but of a text longer than maxLogged it writes the beginning alone. Anybody
// may send a host and a path of 64 KB, of which JSON may make six times as many bytes: some hundred such lines would
// push all others out of a log of bounded size, as those of containers are.
type Log struct{ logging.JSONEncoder }

// CaddyModule returns the Caddy module information.
func (Log) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.encoders.edge_log", New: func() caddy.Module { return new(Log) }}
}

// Clone implements zapcore.Encoder.
func (l *Log) Clone() zapcore.Encoder {
	clone := *l
	clone.Encoder = l.Encoder.Clone()
	return &clone
}

// AddString implements zapcore.ObjectEncoder.
func (l *Log) AddString(key, value string) {
	if len(value) > maxLogged {
		value = value[:maxLogged] + "…"
	}
	l.Encoder.AddString(key, value)
}

var (
	_ zapcore.Encoder   = (*Log)(nil)
	_ caddy.Provisioner = (*Log)(nil)
)
