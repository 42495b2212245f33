package freeport_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/pforte/pforte/pkg/freeport"
)

// many is so many addresses that two draws of them have some in common, unless one
// knows of the other.
const many = 500

// asProgram has the program of this test print addresses, and wait until its input ends.
const asProgram = "FREEPORT_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	addrs, err := freeport.Addrs(context.Background(), many)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Join(addrs, " "))
	_, _ = os.Stdin.Read(make([]byte, 1))
}

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

// No program listens on any of these addresses.
func TestAddress_IsNotReturnedAgain(t *testing.T) {
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), asProgram+"=yes")
	input, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = input.Close(), program.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	returned := map[string]bool{}
	for _, addr := range strings.Fields(line) {
		returned[addr] = true
	}

	var mu sync.Mutex
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			addrs, err := freeport.Addrs(t.Context(), many/100)
			mu.Lock()
			defer mu.Unlock()
			for _, addr := range addrs {
				if returned[addr] {
					t.Errorf("%s again", addr)
				}
				returned[addr] = true
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if len(returned) != 2*many {
		t.Errorf("%d addresses", len(returned))
	}
}
