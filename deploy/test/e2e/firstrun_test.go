package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var setupLink = regexp.MustCompile(`(?m)^(http://\S+)/pforte/setup\?t=([\w-]{43})$`)

// link returns the set-up link that a start printed, and its token.
func (l *launch) link(t *testing.T) (link, token string) {
	t.Helper()
	found := setupLink.FindAllStringSubmatch(l.printed(), -1)
	if len(found) != 1 || found[0][1] != l.origin(t) || strings.Contains(l.printed(), "Log in: ") {
		t.Fatalf("it prints\n%s", l.printed())
	}
	return found[0][0], found[0][2]
}

// restart stops the stack as Ctrl-C does and starts it again.
func (l *launch) restart(t *testing.T) *launch {
	t.Helper()
	if err := l.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := l.end(); code != 0 {
		t.Fatalf("a stop ends with %d: %s", code, l.printed())
	}
	l.allFree(t)
	return up(t, l.state, l.env)
}

func TestSetup_FirstStartPrintsALink(t *testing.T) {
	first := up(t, filepath.Join(t.TempDir(), "state"), append(ports(t), "PATH="+os.Getenv("PATH")))
	older, olderToken := first.link(t)
	second := first.restart(t) // nobody has opened the link
	link, token := second.link(t)
	runJourney(t, "first-run.mjs", []string{"ORIGIN=" + second.origin(t), "OLDER=" + older, "LINK=" + link, "USERNAME=anna", "PASSWORD=Haus am See 7"})
	second.curl(t, "anna", "Haus am See 7")

	third := second.restart(t)
	if printed := third.printed(); setupLink.MatchString(printed) || !strings.Contains(printed, "\nLog in: "+third.origin(t)+"/pforte/\n") {
		t.Errorf("with a user it prints\n%s", printed)
	}
	third.curl(t, "anna", "Haus am See 7")
	third.holdsNo(t, token, olderToken)
	if _, err := os.Stat(filepath.Join(third.state, "admin-password")); err == nil {
		t.Error("a password was generated")
	}
}

// holdsNo fails when a file of the state, a log or the database, contains a secret.
func (l *launch) holdsNo(t *testing.T, secrets ...string) {
	t.Helper()
	logs := 0
	err := filepath.WalkDir(l.state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s contains the token of a link", path)
			}
		}
		if filepath.Ext(path) == ".log" && len(content) > 0 {
			logs++
		}
		return err
	})
	if err != nil || logs < 4 {
		t.Errorf("%d logs, %v", logs, err)
	}
}
