package redistest_test

import (
	"net"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/redistest"
)

func TestServer_KeepsItsAddressOverARestart(t *testing.T) {
	s := redistest.New(t)
	before := s.Addr()
	s.Restart()
	if s.Addr() != before {
		t.Errorf("%s became %s", before, s.Addr())
	}
	s.Kill()
	if conn, err := net.DialTimeout("tcp", before, time.Second); err == nil {
		_ = conn.Close()
		t.Error("a killed server answers")
	}
	s.Kill()
}
