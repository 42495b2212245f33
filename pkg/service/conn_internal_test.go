package service

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair returns the two ends of a connection, ours with that timeout.
func pair(t *testing.T, timeout time.Duration) (ours, theirs net.Conn) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listener{tcp, timeout}
	t.Cleanup(func() { _ = l.Close() })
	if theirs, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

func TestWrite_EndsForAClientThatDoesNotRead(t *testing.T) {
	ours, _ := pair(t, 200*time.Millisecond)
	n, err := ours.Write(make([]byte, 64<<20)) // more than the kernel keeps
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == 64<<20 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestWrite_LetsASlowClientReadOn(t *testing.T) {
	const size, timeout = 64 << 20, time.Second
	ours, theirs := pair(t, timeout)
	read := make(chan int64, 1)
	go func() {
		n := int64(0)
		for range 5 { // together longer than the timeout, each pause shorter
			time.Sleep(timeout / 3)
			m, _ := io.CopyN(io.Discard, theirs, 4<<20)
			n += m
		}
		m, _ := io.Copy(io.Discard, theirs)
		read <- n + m
	}()
	if n, err := ours.Write(make([]byte, size)); err != nil || n != size {
		t.Fatalf("%d, %v", n, err)
	}
	if err := ours.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n := <-read; n != size {
		t.Errorf("the client read %d of %d bytes", n, size)
	}
}

// At each moment the client reads five times of what it must.
func TestWrite_LetsAClientReadSteadily(t *testing.T) {
	const size, timeout = 6 << 20, time.Second / 2
	ours, theirs := pair(t, timeout)
	go func() {
		for some := make([]byte, 32<<10); ; time.Sleep(25 * time.Millisecond) {
			if _, err := theirs.Read(some); err != nil {
				return
			}
		}
	}()
	if n, err := ours.Write(make([]byte, size)); err != nil || n != size {
		t.Fatalf("%d, %v", n, err)
	}
}
