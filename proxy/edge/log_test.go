package edge

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// both is an error and can be logged as an object, too.
type both struct{}

func (both) Error() string { return "of both kinds" }

func (both) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString("uri", "/a?secret")
	return nil
}

func TestLog_TakesFieldsOfAnyKind(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	core := &LogCore{Core: zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&out), zapcore.InfoLevel)}
	log := zap.New(core).With(zap.Error(both{}))
	log.Info("x", zap.Stringer("stringer", stringer{}), zap.Object("object", both{}), zap.Inline(both{}), zap.Reflect("reflected", both{}))
	if got := out.String(); !strings.Contains(got, `"error":"of both kinds"`) || !strings.Contains(got, `"stringer":"text"`) || strings.Contains(got, "secret") {
		t.Errorf("got %s", got)
	}
}

// stringer is the same for a text.
type stringer struct{ both }

func (stringer) String() string { return "text" }
