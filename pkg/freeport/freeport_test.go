package freeport_test

import (
	"net"
	"testing"

	"github.com/pforte/pforte/pkg/freeport"
)

func TestAddress_IsFreeAndReturnedOnce(t *testing.T) {
	addrs, err := freeport.Addrs(t.Context(), 50)
	if err != nil || len(addrs) != 50 {
		t.Fatalf("%d addresses, %v", len(addrs), err)
	}
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatalf("given twice, or not free: %v", err)
		}
		defer func() { _ = l.Close() }()
	}
}

func TestAddress_IsNotOneOfOutgoingConnections(t *testing.T) {
	addrs, err := freeport.Addrs(t.Context(), 50)
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if a, err := net.ResolveTCPAddr("tcp", addr); err != nil || a.Port < 1024 || a.Port >= 32768 {
			t.Errorf("%s, %v", addr, err)
		}
	}
}
