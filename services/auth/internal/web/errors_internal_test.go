package web

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/auth/internal/application"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// unseen are the errors that no request fails with: those of the operator's commands and
// settings, and those that a rule handles or replaces.
var unseen = []string{
	"userfile.ErrTooLarge", "userfile.ErrColumns", "user.ErrID", "user.ErrIDTaken", "user.ErrCreatedAt",
	"password.ErrHash", "password.ErrHashCost", "factor.ErrKey", // of an import, and of a key
	"user.ErrChanged", "session.ErrFenced", "session.ErrLoop", "password.ErrMismatch",
	"once.ErrGone", "link.ErrUsed", // pages show what became of a secret and of a link
	"oidc.ErrUnknownClient", "oidc.ErrRequestGone", // pages of a login at an application
	"oidc.ErrFactor", "oidc.ErrSealed", "oidc.ErrToken", "oidc.ErrNoKey", // of a preview, and of keys
	"policy.ErrTooManyProbes", "policy.ErrNoProxy", "policy.ErrProbeWaits", // said beside the internal address
}

// wrapped are the errors that wrap one of the table.
var wrapped = []string{"factor.ErrPasskeyCloned", "factor.ErrNoPublicURL", "factor.ErrNotHTTPS", "factor.ErrIPAddress"}

func TestFailures_HaveEveryErrorOfARequest(t *testing.T) {
	table, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows, declared []string
	for _, m := range regexp.MustCompile(`(?m)^\trow\(([\w.]+), http`).FindAllStringSubmatch(string(table), -1) {
		rows = append(rows, m[1])
	}
	if len(rows) != len(failures) {
		t.Fatalf("%d rows are read of %d", len(rows), len(failures))
	}
	ofOAuth, err := os.ReadFile("oidc.go") // in the words of OAuth
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\t+\{?(oidc\.Err\w+), http`).FindAllStringSubmatch(string(ofOAuth), -1)
	if len(found) != len(oauthFailures)-4 { // those of pkg/service and web
		t.Fatalf("%d rows are read of %d", len(found), len(oauthFailures))
	}
	for _, m := range found {
		rows = append(rows, m[1])
	}
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^(?:var |\t)([Ee]rr[A-Z]\w*)\s+= \w`).FindAllStringSubmatch(string(source), -1) {
			name := filepath.Base(filepath.Dir(path)) + "." + m[1]
			declared = append(declared, strings.TrimPrefix(name, "web."))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(declared) < len(rows)-5 { // those of pkg/service are declared there
		t.Errorf("%d errors are declared, and %d are in the table", len(declared), len(rows))
	}
	for _, name := range declared {
		pkg, _, _ := strings.Cut(name, ".")
		if slices.Contains([]string{"httpapi", "pages"}, pkg) {
			t.Errorf("%s: errors of requests are declared beside the table", name)
		}
		if strings.Contains(name, ".err") || slices.Contains(rows, name) == !slices.Contains(append(unseen, wrapped...), name) {
			continue
		}
		t.Errorf("%s is not in the table, or is in it and said to be unseen", name)
	}
}

func TestFailures_AnswerEachErrorByItsRow(t *testing.T) {
	for _, f := range failures {
		if got := FailureOf(f.Err); !errors.Is(got.Err, f.Err) || !errors.Is(f.Err, got.Err) {
			t.Errorf("%v is answered as %v", f.Err, got.Err)
		}
		if f.German == "" && f.Page == "" || f.Status < 400 {
			t.Errorf("%v has no answer", f.Err)
		}
	}
	if f := FailureOf(errors.New("sql: connection refused")); f.Status != 500 || f.Reason != "" || strings.Contains(f.German, "sql") {
		t.Errorf("another error is answered by %+v", f)
	}
}

// TestFailures_TellWhatIsNamedByThePathFromTheRest: what is named by the path, or by the id of a
// button, is not there; what a body or form names beside it makes the request wrong.
func TestFailures_TellWhatIsNamedByThePathFromTheRest(t *testing.T) {
	for err, want := range map[error]int{
		factor.ErrNoPasskey: http.StatusConflict, OfPasskey(factor.ErrNoPasskey): http.StatusNotFound,
		application.ErrGroupNotFound: http.StatusBadRequest, OfGroup(application.ErrGroupNotFound): http.StatusNotFound,
		user.ErrNotFound: http.StatusNotFound, OfGroup(user.ErrNotFound): http.StatusBadRequest,
	} {
		if f := FailureOf(err); f.Status != want || f.OnPage().Status != want {
			t.Errorf("%v: %d, on a page %d, want %d", err, f.Status, f.OnPage().Status, want)
		}
	}
}
