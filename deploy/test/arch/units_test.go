package arch

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/secrets"
)

// units lists what each systemd unit runs, where its settings are documented, and
// which example file has the operator's own.
var units = map[string]struct{ program, documented, example string }{
	"pforte-auth.service":     {"auth", "services/auth/README.md", "auth.env"},
	"pforte-verifier.service": {"verifier", "services/verifier/README.md", "verifier.env"},
	"pforte-proxy.service":    {"pforte-proxy", "proxy/README.md", "proxy.env"},
	"pforte-backup.service":   {"backup", "deploy/backup/usage.txt", ""},
}

// systemwide are variables that are no program's settings.
var systemwide = []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TMPDIR"}

var (
	environmentLine = regexp.MustCompile(`(?m)^Environment=([A-Z0-9_]+)=`)
	exampleLine     = regexp.MustCompile(`(?m)^([A-Z0-9_]+)=(.*)$`)
	requiredRow     = regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)`[^|]*\\| required \\|")
)

// documents reports whether a page names a setting, or the secret whose file it is.
func documents(page, setting string) bool {
	return strings.Contains(page, "`"+setting+"`") || strings.Contains(page, "  "+setting+" ")
}

func systemd(t *testing.T, name string) string {
	t.Helper()
	return text(t, "deploy/systemd/"+name)
}

func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestUnits_UseDocumentedSettings(t *testing.T) {
	for name, unit := range units {
		content, page := systemd(t, name), text(t, unit.documented)
		if !strings.Contains(content, "/opt/pforte/bin/"+unit.program) {
			t.Errorf("%s does not run %s", name, unit.program)
		}
		if unit.example != "" && (!strings.Contains(content, "\nRestart=on-failure\n") || !strings.Contains(content, "\nStartLimitIntervalSec=0\n")) {
			t.Errorf("%s stays down when its stores come late", name)
		}
		set := []string{}
		for _, match := range environmentLine.FindAllStringSubmatch(content, -1) {
			set = append(set, match[1])
		}
		if unit.example != "" {
			for _, match := range exampleLine.FindAllStringSubmatch(systemd(t, unit.example), -1) {
				set = append(set, match[1])
			}
			if !strings.Contains(content, "/etc/pforte/"+unit.example+"\n") {
				t.Errorf("%s does not read %s", name, unit.example)
			}
		}
		for _, setting := range set {
			if !documents(page, setting) && !slices.Contains(systemwide, setting) {
				t.Errorf("%s sets %s, which %s does not know", name, setting, unit.documented)
			}
		}
		for _, match := range requiredRow.FindAllStringSubmatch(page, -1) {
			if !slices.Contains(set, match[1]) && !slices.Contains(set, match[1]+"_FILE") {
				t.Errorf("%s leaves out %s, which is required", name, match[1])
			}
		}
	}
}

// Every secret that setup makes for auth reaches it as a credential of systemd.
func TestUnits_AuthReadsItsSecrets(t *testing.T) {
	unit := systemd(t, "pforte-auth.service")
	for setting, name := range map[string]string{
		"SESSION_SECRET_FILE": secrets.Session, "SESSION_SECRET_PREVIOUS_FILE": secrets.PreviousSession,
		"DATA_KEY_FILE": secrets.DataKey, "DATA_KEY_PREVIOUS_FILE": secrets.PreviousDataKey,
	} {
		for _, line := range []string{"LoadCredential=" + name + ":/etc/pforte/secrets/" + name, "Environment=" + setting + "=%d/" + name} {
			if !strings.Contains(unit, "\n"+line+"\n") {
				t.Errorf("it has no line %s", line)
			}
		}
	}
	if !strings.Contains(systemd(t, "auth.env"), "\nPUBLIC_URL=\n") {
		t.Error("auth.env has no place for the address")
	}
}

// maxExposure is what `systemd-analyze security` may find, times ten: 10 is
// nothing, 100 is everything.
const maxExposure = "20"

func TestUnits_AreValidAndConfined(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is not installed, and CI is set")
		}
		t.Skip("systemd-analyze is not installed")
	}
	files, err := filepath.Glob(filepath.Join(top, "deploy/systemd/pforte-*"))
	if err != nil || len(files) <= len(units) {
		t.Fatalf("%d units, %v", len(files), err)
	}
	folder := t.TempDir()
	for _, file := range files {
		// verify wants the programs to be there.
		content := strings.ReplaceAll(systemd(t, filepath.Base(file)), "/opt/pforte/bin/", "/bin/true ")
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		name := filepath.Join(folder, filepath.Base(file))
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", name).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(file)) {
			t.Errorf("%s: %v: %s", filepath.Base(file), err, out)
		}
		if filepath.Ext(file) != ".service" {
			continue
		}
		out, err = exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold="+maxExposure, name).CombinedOutput()
		if err != nil {
			t.Errorf("%s is too exposed: %s", filepath.Base(file), out[max(0, len(out)-200):])
		}
	}
}

// systemd-sysusers skips a user whose description has a colon: it separates the
// fields of /etc/passwd.
func TestUnits_UsersAreMade(t *testing.T) {
	made := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^u (\S+) +- "([^":]+)"$`).FindAllStringSubmatch(systemd(t, "pforte.sysusers.conf"), -1) {
		made[line[1]] = true
	}
	for _, name := range append(slices.Collect(maps.Keys(units)), "pforte-witness@.service", "pforte-mirror.service") {
		user := regexp.MustCompile(`(?m)^User=(.*)$`).FindStringSubmatch(systemd(t, name))
		if user != nil && !made[user[1]] {
			t.Errorf("%s runs as %s, which pforte.sysusers.conf does not create", name, user[1])
		}
	}
}
