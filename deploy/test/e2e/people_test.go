package e2e

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
)

// household is a stack whose pages are used in Chromium: auth behind the proxy, and
// nothing else.
type household struct {
	*world
	origin string // as people type it
}

// newHousehold starts the stack of a household. People use its pages at a host name.
func newHousehold(t *testing.T, host string, settings map[string]string) household {
	t.Helper()
	node(t)
	chromium(t)
	h := household{}
	h.world = newWorld(t, options{
		change: func(l *layout.Layout) {
			_, port, _ := strings.Cut(strings.TrimPrefix(l.PublicURL, "http://"), ":")
			h.origin = "http://" + host + ":" + port
			l.Extra["auth"] = map[string]string{"PUBLIC_URL": h.origin}
			maps.Copy(l.Extra["auth"], settings)
		},
		only: func(l layout.Layout) []stack.Program {
			proxy := l.Proxy()
			proxy.Ready = stack.Healthy("http://" + l.ProxyAdmin + "/livez")
			return []stack.Program{l.Auth(), proxy}
		},
	})
	return h
}

// chromium is the path of Chromium. Without it the journey is skipped; CI has it.
func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is not installed, and CI is set")
		}
		t.Skip("chromium is not installed")
	}
	return path
}

// journey runs a script of clients/journeys with further variables of its environment.
func (h household) journey(t *testing.T, script string, env ...string) {
	t.Helper()
	env = append(append(h.Auth().Env, "ORIGIN="+h.origin, "AUTH="+filepath.Join(h.Bin, "auth"), "CHROMIUM="+chromium(t), "SHOTS="+os.Getenv("SHOTS"), "TIMES="+os.Getenv("TIMES")), env...)
	if code, out := command(t, env, node(t), "clients/journeys/"+script); code != 0 {
		t.Fatalf("%s ends with %d: %s", script, code, out)
	}
}

// asAdmin are the variables of a journey with the first administrator.
func (h household) asAdmin(t *testing.T) []string {
	t.Helper()
	password, err := h.AdminPassword()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"USERNAME=" + layout.AdminName, "PASSWORD=" + password}
}

func TestAnInvitedMemberJoinsOnAPhone(t *testing.T) {
	h := newHousehold(t, "home.test", nil)
	h.journey(t, "invite.mjs", h.asAdmin(t)...)
}

func TestAMemberLogsInByKeyboardAndWithoutJavaScript(t *testing.T) {
	h := newHousehold(t, "home.test", nil)
	h.world.member(t, "jule")
	h.journey(t, "login.mjs", "USERNAME=jule", "PASSWORD=a password of eight")
}

func TestPagesOfOtherOriginsCannotUseTheForms(t *testing.T) {
	for _, host := range []string{"localhost", "home.test"} { // with and without Sec-Fetch-Site
		t.Run(host, func(t *testing.T) {
			h := newHousehold(t, host, nil)
			h.world.member(t, "jule")
			h.journey(t, "foreign.mjs", "USERNAME=jule", "PASSWORD=a password of eight")
		})
	}
}
