package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// backend answers every request with an object, and counts them.
func backend(t *testing.T) (addr string, requests *atomic.Int32) {
	t.Helper()
	requests = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, `{"result":{"status":"0x1","hash":"0xabcdef"}}`)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), requests
}

func post(t *testing.T, addr string) (status int, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/settle", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func TestWire_AFaultPassesTheQuestionOnOrNot(t *testing.T) {
	addr, requests := backend(t)
	h := newHTTPProxy(t, addr)
	for name, c := range map[string]struct {
		fault        linkFault
		passes       bool
		status       int
		readable, ok bool
	}{
		"none":     {noFault, true, 200, true, true},
		"slow":     {slow, true, 200, true, true},
		"hang":     {hang, false, 0, false, false},
		"refuse":   {refuse, false, 0, false, false},
		"after":    {cutAfter, true, 0, false, false},
		"500":      {status500, false, 500, true, true},
		"late 500": {late500, true, 500, true, true},
		"garbage":  {garbage, true, 200, false, true},
		"half":     {half, true, 200, false, true},
	} {
		h.set(c.fault, 1, 20*time.Millisecond)
		before := requests.Load()
		status, body, err := post(t, h.Listener.Addr().String())
		if (err == nil) != c.ok || status != c.status || json.Valid([]byte(body)) != c.readable {
			t.Errorf("%s: %d %q %v", name, status, body, err)
		}
		if passed := requests.Load() > before; passed != c.passes {
			t.Errorf("%s: passed on is %t", name, passed)
		}
	}
}

func TestWire_ANodesLieChangesOneValueOnly(t *testing.T) {
	honest := `{"result":{"status":"0x1","hash":"0xabcdef"}}`
	x := exchange{pass: func([]byte) (int, []byte) { return 200, []byte(honest) }, random: source(1, 1)}
	changed := 0
	for range 200 {
		_, lie := lieAsNode(x)
		if !json.Valid(lie) {
			t.Fatalf("%s", lie)
		}
		differ := 0
		for i := range min(len(lie), len(honest)) {
			if lie[i] != honest[i] {
				differ++
			}
		}
		if string(lie) != `{"result":null}` && (len(lie) != len(honest) || differ > 1) {
			t.Errorf("%s", lie)
		}
		changed += differ
	}
	if changed == 0 {
		t.Error("it never lies")
	}
}

func TestWire_AFacilitatorLiesBothWays(t *testing.T) {
	moved, denied, invented := 0, 0, 0
	x := exchange{path: "/settle", request: []byte(`{"paymentRequirements":{"network":"eip155:1"}}`), random: source(1, 1)}
	for range 100 {
		passed := false
		x.pass = func([]byte) (int, []byte) { passed = true; return 200, nil }
		_, answer := lieAsFacilitator(x)
		var answered struct{ Success bool }
		if err := json.Unmarshal(answer, &answered); err != nil {
			t.Fatal(err)
		}
		switch {
		case passed && !answered.Success:
			denied++
		case !passed && answered.Success:
			invented++
		case passed:
			moved++
		}
	}
	if moved == 0 || denied == 0 || invented == 0 {
		t.Errorf("%d moved, %d denied, %d invented", moved, denied, invented)
	}
}

func TestWire_AFacilitatorThatAcceptsAllSettlesHonestly(t *testing.T) {
	passed := 0
	x := exchange{path: "/verify", request: []byte(`{}`), pass: func([]byte) (int, []byte) { passed++; return 200, []byte("{}") }}
	_, answer := believes(x)
	var answered struct{ IsValid bool }
	if err := json.Unmarshal(answer, &answered); err != nil || !answered.IsValid || passed != 0 {
		t.Errorf("%s, %v, passed on %d times", answer, err, passed)
	}
	x.path = "/settle"
	if _, answer := believes(x); string(answer) != "{}" || passed != 1 {
		t.Errorf("%s, passed on %d times", answer, passed)
	}
}

// TestWire_ABroadcasterReportsNothing goes by what the
// official facilitators answer before they send anything.
func TestWire_ABroadcasterReportsNothing(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	statuses, hashes, late, silent := map[int]bool{}, 0, 0, 0
	x := exchange{path: "/settle", request: []byte(`{}`), gone: gone, random: source(1, 1)}
	for range 1000 {
		sent := 0
		x.pass = func([]byte) (int, []byte) { sent++; return 200, []byte(`{"success":true,"transaction":"0x12"}`) }
		x.later = func(after time.Duration) {
			sent++
			if after > 2*time.Second {
				late++
			}
		}
		status, answer := broadcaster(x)
		if sent != 1 {
			t.Fatalf("sent %d times", sent)
		}
		var answered struct {
			Success                  bool
			ErrorReason, Transaction string
		}
		_ = json.Unmarshal(answer, &answered) // free text is none
		reason := strings.ReplaceAll(strings.ToLower(answered.ErrorReason), " ", "_")
		if answered.Success || reason == "insufficient_funds" || strings.Contains(reason, "signature") || strings.HasPrefix(reason, "unsupported") {
			t.Errorf("answered %s", answer)
		}
		if statuses[status] = true; status == 0 {
			silent++
		}
		if answered.Transaction == "0x12" {
			hashes++
		}
	}
	if len(statuses) < 4 || hashes == 0 || late == 0 || silent == 0 {
		t.Errorf("statuses %v, %d right hashes, %d late, %d without an answer", statuses, hashes, late, silent)
	}
}

// chainAtBlock100 answers as a chain at block 100 with block 96 final.
func chainAtBlock100(request []byte) (int, []byte) {
	var calls []struct {
		ID     int
		Params []any
	}
	if json.Unmarshal(request, &calls) != nil {
		return 400, nil
	}
	var answers []string
	for _, c := range calls {
		number, tag := "0x64", ""
		if len(c.Params) > 0 {
			tag, _ = c.Params[0].(string)
		}
		if tag == "finalized" {
			number = "0x60"
		}
		answers = append(answers, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"number":%q,"timestamp":"0x5","hash":"0x0%s"}}`, c.ID, number, number[2:]))
	}
	return 200, []byte("[" + strings.Join(answers, ",") + "]")
}

func TestWire_ANodeLiesAboutHeadsForSoManyAnswers(t *testing.T) {
	const heads = `[{"id":1,"method":"eth_getBlockByNumber","params":["latest",false]},{"id":2,"method":"eth_getBlockByNumber","params":["finalized",false]},{"id":3,"method":"eth_getBlockByNumber","params":["0x5",false]}]`
	_, honest := chainAtBlock100([]byte(heads))
	var original, lied []struct{ Result struct{ Number string } }
	if err := json.Unmarshal(honest, &original); err != nil {
		t.Fatal(err)
	}
	for way := range uint64(4) {
		lie := lieAboutHeads(way, 1)
		x := exchange{request: []byte(`[{"id":1,"method":"eth_chainId","params":[]}]`), pass: chainAtBlock100, random: source(1, 1)}
		_, same := chainAtBlock100(x.request)
		if _, got := lie(x); string(got) != string(same) {
			t.Errorf("way %d: another request is answered %s", way, got)
		}
		x.request = []byte(heads)
		_, got := lie(x)
		if err := json.Unmarshal(got, &lied); err != nil {
			t.Fatalf("way %d: %s: %v", way, got, err)
		}
		higher := lied[0].Result.Number > original[0].Result.Number || len(lied[0].Result.Number) > 4
		final := lied[1].Result.Number != original[1].Result.Number
		if higher != (way > 1) || final != (way < 3) || lied[2].Result.Number != original[2].Result.Number {
			t.Errorf("way %d: %s", way, got)
		}
		if _, got := lie(x); string(got) != string(honest) {
			t.Errorf("way %d: a second time it answers %s", way, got)
		}
	}
}

func TestWire_AConnectionIsCutOnEitherWay(t *testing.T) {
	listener := listen(t.Context(), t)
	defer func() { _ = listener.Close() }()
	var heard atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				for b := make([]byte, 1); ; heard.Add(1) {
					if _, err := conn.Read(b); err != nil {
						return
					}
					if _, err := conn.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	between := newTCPProxy(t.Context(), t, listener.Addr().String())
	for name, c := range map[string]struct {
		fault         linkFault
		there, answer bool
	}{
		"none": {noFault, true, true}, "slow": {slow, true, true}, "hang": {hang, false, false},
		"refuse": {refuse, false, false}, "before": {cutBefore, false, false}, "after": {cutAfter, true, false},
	} {
		between.set(c.fault, 10*time.Millisecond)
		before := heard.Load()
		if got := echo(t, between.addr()); got != c.answer {
			t.Errorf("%s: an answer is %t", name, got)
		}
		if got := heard.Load() > before; got != c.there {
			t.Errorf("%s: got there is %t", name, got)
		}
		between.set(noFault, 0)
	}
}

// echo sends a byte and reports whether it comes back.
func echo(t *testing.T, addr string) bool {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	b := []byte{1}
	if _, err := conn.Write(b); err != nil {
		return false
	}
	_, err = conn.Read(b)
	return err == nil
}
