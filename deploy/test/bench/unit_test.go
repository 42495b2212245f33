package bench

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.004: "0.00", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,235", 1234567: "1,234,567"} {
		if got := figure(f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
	s := samples{3, 1, 2}
	if s.String() != "2.00 (1.00–3.00)" || (samples{4, 1, 2, 3}).median() != 2.5 || (samples{}).String() != "" || s.quantile(0.99) != 3 {
		t.Error(s, (samples{4, 1, 2, 3}).median(), s.quantile(0.99))
	}
	if got := s.over(samples{1, 2}); got.String() != "1.75 (0.50–3.00)" {
		t.Error(got)
	}
}

func TestPage_KeepsWhatOtherRunsMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("# Performance\n\nIn short.\n\n"+fmt.Sprintf(mark, sections[0].name)+"\nold\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ section, text string }{{"peers", "\nfirst\n"}, {"logins", "\nlast\n"}, {"peers", "\nsecond\n"}} {
		if err := publish(file, of.section, of.text, map[string]string{"logins": "<svg/>"}[of.section]); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(page)
	for section, text := range map[string]string{sections[0].name: "\nold\n\n", "peers": "\nsecond\n\n", "logins": "\nlast\n\n", "overload": "\noverload: not measured.\n\n"} {
		if kept, ok := textIn(got, section); !ok || kept != text {
			t.Errorf("%s: %q, %v", section, kept, ok)
		}
	}
	if !strings.HasPrefix(got, "# Performance\n\nIn short.\n\n<!-- section before -->") || strings.Contains(got, "first") || strings.Count(got, "<!--") != len(sections) {
		t.Errorf("got %s", got)
	}
	if picture, err := os.ReadFile(strings.TrimSuffix(file, ".md") + ".svg"); err != nil || string(picture) != "<svg/>" {
		t.Errorf("the picture: %s, %v", picture, err)
	}
}

func TestRow_IsJudgedByItsRatioOrElseItsFigure(t *testing.T) {
	var p page
	p.table("peer", faster("speed", samples{6}, samples{2}, atLeast(4)), row{what: "time", ours: samples{1}, goal: atMost(2)}, row{what: "size", ours: samples{7}})
	want := `
|  | unit | Pforte | peer | ratio | wanted |  |
|---|---|---|---|---|---|---|
| speed | 1/s | 6.00 | 2.00 | 3.00 | ≥ 4.00 | **missed** |
| time |  | 1.00 |  |  | ≤ 2.00 | met |
| size |  | 7.00 |  |  |  |  |
`
	if p.String() != want {
		t.Errorf("got %s, want %s", p.String(), strings.TrimSpace(want))
	}
}

func TestCells_AreBehindOneBlankLine(t *testing.T) {
	for _, text := range []string{"A text.", "A text.\n"} {
		var p page
		p.line("%s", text)
		p.cells([]string{"a"}, []string{"1"})
		if want := "A text.\n\n| a |\n|---|\n| 1 |\n"; p.String() != want {
			t.Errorf("got %q, want %q", p.String(), want)
		}
	}
}

// server answers 418 to a client that does not name itself.
func server(t *testing.T) cell {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Client") == "" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(s.Close)
	return cell{addr: strings.TrimPrefix(s.URL, "http://"), clients: 4, status: http.StatusOK}
}

func known(name string) []byte {
	return request(http.MethodGet, "/", "", http.Header{"X-Client": {name}})
}

func TestLoad_CountsAnswersOfWrkAndRefusesOthers(t *testing.T) {
	if _, err := exec.LookPath("wrk"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("wrk is not installed, and CI is set")
		}
		t.Skip("wrk is not installed")
	}
	s, c := &suite{T: t, limited: t.Context()}, server(t)
	requests := [][]byte{known("a"), known("b")}
	if r, err := s.wrk(c, requests, time.Second); err != nil || r.Answers < 2 || r.P50 <= 0 || r.Microseconds < 500_000 {
		t.Errorf("got %+v, %v", r, err)
	}
	once := c
	once.payments = func(int) [][]byte { return requests }
	if _, err := s.wrk(once, requests, time.Second); err == nil {
		t.Error("requests that may be sent once were sent again")
	}
	stranger := request(http.MethodGet, "/", "", nil)
	if _, err := s.wrk(c, append(requests, stranger), time.Second); err == nil {
		t.Error("an answer of another status was counted")
	}
	if err := first(t.Context(), c, stranger); err == nil {
		t.Error("a first answer of another status was accepted")
	}
}

func TestLoad_OpenLoopDoesNotWaitForAnswers(t *testing.T) {
	const slow = 300 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slow)
		if r.URL.Path == "/full" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	requests := [][]byte{request(http.MethodGet, "/", "", nil), request(http.MethodGet, "/full", "", nil)}
	began := time.Now()
	outcomes := openLoop(t.Context(), strings.TrimPrefix(s.URL, "http://"), requests, steadily(200, 0, time.Second/2))
	if took := time.Since(began); len(outcomes) != 100 || took < slow+time.Second/2-10*time.Millisecond || took > 20*slow {
		t.Errorf("%d arrivals took %v", len(outcomes), took)
	}
	for i, o := range outcomes {
		want := outcome{status: http.StatusOK}
		if i%2 == 1 {
			want = outcome{status: http.StatusServiceUnavailable, retryAfter: true}
		}
		if o.status != want.status || o.retryAfter != want.retryAfter || o.took < slow || o.due != time.Duration(i)*5*time.Millisecond {
			t.Fatalf("arrival %d: %+v", i, o)
		}
	}
	if dead := openLoop(t.Context(), "127.0.0.1:1", requests, steadily(10, 0, time.Second/10)); dead[0].status != 0 {
		t.Error(dead)
	}
}

func TestOverload_IsJudgedByWhatEveryClientGot(t *testing.T) {
	served := outcome{took: 10 * time.Millisecond, status: http.StatusOK}
	told := outcome{took: 100 * time.Millisecond, status: http.StatusServiceUnavailable, retryAfter: true}
	late, silent := told, told
	late.took, silent.retryAfter = 2*time.Second, false
	if got := uninformed([]outcome{served, served, told, told, late, silent}, http.StatusOK); got != 50 {
		t.Errorf("%v %% of those not served were not told", got)
	}
	if got := uninformed([]outcome{served}, http.StatusOK); got != 0 {
		t.Errorf("%v %% of none", got)
	}
	var after []outcome
	for i := range 80 {
		o := served
		if o.due = time.Duration(i) * time.Second / 10; o.due < 3*time.Second {
			o.took = time.Second
		}
		after = append(after, o)
	}
	if got := recovery(after, time.Second, 20); got != 2 {
		t.Errorf("p99 was back after %v s", got)
	}
	if got := recovery(slices.Repeat([]outcome{late}, 3), 0, 20); got != recovering.Seconds() {
		t.Errorf("p99 was back after %v s", got)
	}
}

func TestPicture_HasALineForEveryKind(t *testing.T) {
	curves := make([]curve, len(kinds))
	for i, k := range kinds {
		curves[i] = curve{kind: k, capacity: samples{100}, goodput: slices.Repeat([]samples{{50}}, len(offered)), p99: slices.Repeat([]samples{{20}}, len(offered))}
	}
	var svg struct {
		Lines []struct{} `xml:"polyline"`
		Texts []string   `xml:"text"`
	}
	if err := xml.Unmarshal([]byte(picture(curves)), &svg); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GET /me", "POST /login", "unpaid call, 402", "paid call", "offered load ÷ capacity", "10,000"} {
		if !slices.Contains(svg.Texts, want) {
			t.Errorf("no %q in %q", want, svg.Texts)
		}
	}
	if len(svg.Lines) < 3*len(kinds) {
		t.Errorf("%d lines", len(svg.Lines))
	}
}
