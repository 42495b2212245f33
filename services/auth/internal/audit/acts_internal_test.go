package audit

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestActs_AreTheEventsThatAreRecorded reads the sources for the names of events.
func TestActs_AreTheEventsThatAreRecorded(t *testing.T) {
	named := regexp.MustCompile(`(?:audit\.Event\{\s*Name:\s*|\babout\(\s*|recordAbout\(\s*ctx,\s*|recordFailed\(\s*ctx,\s*)"(\w+)"`)
	var recorded []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(source), -1) {
			recorded = append(recorded, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(recorded)
	if recorded = slices.Compact(recorded); !slices.Equal(recorded, Names()) {
		t.Errorf("recorded are\n%q\nthe table has\n%q", recorded, Names())
	}
}

func TestLog_NamesWhoActed(t *testing.T) {
	made := Event{Name: "token_made", SubjectID: 2, SubjectName: "otto", Detail: map[string]any{"token": 7, "name": "secret?"}}
	changed := Event{Name: "app_changed", Detail: map[string]any{"before": map[string]any{"app": "x"}, "after": map[string]any{"app": "y"}}}
	admin := Actor{Kind: User, ID: 1, Name: "anna", IP: "192.0.2.1", RequestID: "r"}
	root := Actor{Kind: Operator, Name: "root"}
	for _, c := range []struct {
		by    Actor
		event Event
		want  string
	}{
		{admin, made, `event=token_made ip=192.0.2.1 request_id=r token=7 user_id=2 by=1`},
		{root, made, `event=token_made actor=cli os_user=root username=otto token=7 user_id=2`},
		{admin, changed, `event=app_changed ip=192.0.2.1 request_id=r app=y by=1`},
		{admin, Event{Name: "app_route_set", Detail: map[string]any{"app": "x", "before": nil, "after": map[string]any{"upstream": "http://x:80"}}}, `event=app_route_set ip=192.0.2.1 request_id=r app=x by=1`},
		{Actor{Kind: Anonymous, IP: "192.0.2.2"}, Event{Name: "reset_used", SubjectID: 2}, `event=reset_used ip=192.0.2.2 request_id="" user_id=2`},
		{root, Event{Name: "password_reset", SubjectName: "otto"}, `event=password_changed actor=cli os_user=root username=otto`},
		{admin, Event{Name: "password_reset"}, ``},
		{root, Event{Name: "sessions_ended"}, ``},
		{Actor{Kind: System}, Event{Name: "user_created"}, ``},
		{admin, Event{Name: "no such event"}, ``},
	} {
		var b bytes.Buffer
		Log(t.Context(), slog.New(slog.NewTextHandler(&b, nil)), Entry{Actor: c.by, Event: c.event})
		_, got, _ := strings.Cut(strings.TrimSpace(b.String()), "msg=audit ")
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
