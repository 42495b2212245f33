package redistest

import "testing"

func TestServer_ThatHasThePortIsNotMistaken(t *testing.T) {
	first := New(t)
	second := &Server{t: t, port: first.port, args: first.args}
	if err := second.run(); err == nil {
		second.Kill()
		t.Error("two servers on one port")
	}
	if reply, err := first.Do("PING"); err != nil || reply != "PONG" {
		t.Errorf("the first answers %q, %v", reply, err)
	}
}
