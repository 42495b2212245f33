package arch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docker is a stand-in for docker and its compose: a file SERVICE.NUMBER for each container, with
// its version. It writes how many containers of a service run whenever that changes, and, as
// compose does, gives a new container the number after the highest. An id is SERVICE.NUMBER-VERSION.
// What LEFT names is a container that compose run left behind, which has no number. The
// container UNHEALTHY is that until it is replaced or started again, and compose waits for it in vain.
const docker = `#!/bin/sh
set -eu
cd "$STATE"
count() { echo "$1 $(ls | grep -c "^$1[.]")" >> ../events; }
create() { last=$(ls | sed -n "s/^$1[.]//p" | sort -n | tail -1); echo "$VERSION" > "$1.$((${last:-0} + 1))"; count "$1"; }
wait_for() {
	case " $* " in
	*" --wait "*) [ -e ../restarted ] || ! grep -qsx "${UNHEALTHY##*-}" "${UNHEALTHY%-*}" ;;
	esac
}
UNHEALTHY=${UNHEALTHY:-none-none}
case "$1" in
stop) ;;
rm) rm "${2%-*}"; count "${2%.*}" ;;
restart) echo "restart $2" >> ../events; touch ../restarted ;;
inspect)
	case "$*" in
	*oneoff*" run-"*) echo True; exit ;;
	*oneoff*) echo False; exit ;;
	*" run-"*) echo; exit ;;
	*RestartCount*" $UNHEALTHY") if [ -e ../restarted ]; then echo "0 healthy"; else echo "0 unhealthy"; fi; exit ;;
	*RestartCount*) echo "0 healthy"; exit ;;
	esac
	for last; do :; done; last=${last%-*}; echo "${last##*.}" ;;
compose)
	for service; do :; done
	case " $* " in
	*" run "*) echo "setup" >> ../events ;;
	*" ps "*) for c in "$service".*; do echo "$c-$(cat "$c")"; done; [ -z "${LEFT:-}" ] || echo "$LEFT" ;;
	*" up -d --no-deps --wait proxy ") echo "proxy" >> ../events ;;
	*" up -d --wait ") echo "all" >> ../events ;;
	*" --no-recreate "*)
		while [ "$(ls | grep -c "^$service[.]")" -lt "$REPLICAS" ]; do create "$service"; done
		wait_for "$@"
		;;
	*" up "*)
		for c in $(ls | grep "^$service[.]"); do
			if [ "$(cat "$c")" != "$VERSION" ]; then mv "$c" ..; count "$service"; mv "../$c" .; echo "$VERSION" > "$c"; count "$service"; fi
		done
		wait_for "$@"
		;;
	esac
	;;
esac
`

// rolled runs deploy/roll where each service has as many containers of version v1, and returns
// what happened, and what is there then.
func rolled(t *testing.T, replicas int, version string, services ...string) (events, after []string, err error) {
	t.Helper()
	folder := t.TempDir()
	state := filepath.Join(folder, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"auth", "verifier"} {
		for n := range replicas {
			if err := os.WriteFile(filepath.Join(state, fmt.Sprintf("%s.%d", service, n+1)), []byte("v1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, content := range map[string]string{"docker": docker, "sleep": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(top, "deploy/roll"), services...)
	cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "STATE="+state, "VERSION="+version, fmt.Sprintf("REPLICAS=%d", replicas), "P=")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	log, _ := os.ReadFile(filepath.Join(folder, "events"))
	entries, _ := os.ReadDir(state)
	for _, entry := range entries {
		content, _ := os.ReadFile(filepath.Join(state, entry.Name()))
		after = append(after, entry.Name()+" "+strings.TrimSpace(string(content)))
	}
	return strings.FieldsFunc(string(log), func(r rune) bool { return r == '\n' }), after, err
}

// The proxy knows the replicas by their names, which end with their numbers. It is replaced before
// the rest, because compose would stop it and start it again only when all that it depends on has
// started, setup among it.
func TestRoll_ReplacesOneContainerAtATimeUnderItsName(t *testing.T) {
	events, after, err := rolled(t, 2, "v2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"setup", "auth 1", "auth 2", "auth 1", "auth 2", "verifier 1", "verifier 2", "verifier 1", "verifier 2", "proxy", "all",
	}, events); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"auth.1 v2", "auth.2 v2", "verifier.1 v2", "verifier.2 v2"}, after); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

func TestRoll_StartsAgainWhatOnlyHasNewSecrets(t *testing.T) {
	events, after, err := rolled(t, 2, "v1", "auth")
	if diff := cmp.Diff([]string{"auth 1", "auth 2", "restart auth.1-v1"}, events); diff != "" || err != nil {
		t.Errorf("%v, containers (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"auth.1 v1", "auth.2 v1", "verifier.1 v1", "verifier.2 v1"}, after); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	events, _, err = rolled(t, 1, "v1", "auth")
	if diff := cmp.Diff([]string{"restart auth.1-v1"}, events); diff != "" || err != nil {
		t.Errorf("without a replica: %v, containers (-want +got):\n%s", err, diff)
	}
}

func TestRoll_LeavesWhatRunHasLeft(t *testing.T) {
	t.Setenv("LEFT", "run-1")
	events, _, err := rolled(t, 2, "v2", "auth")
	if diff := cmp.Diff([]string{"auth 1", "auth 2", "auth 1", "auth 2"}, events); diff != "" || err != nil {
		t.Errorf("%v, containers (-want +got):\n%s", err, diff)
	}
}

// It may be so for what the new settings or secrets end.
func TestRoll_ReplacesAFirstOneThatIsUnhealthy(t *testing.T) {
	t.Setenv("UNHEALTHY", "auth.1-v1")
	for version, last := range map[string][]string{"v2": {"auth 1", "auth 2"}, "v1": {"restart auth.1-v1"}} {
		events, _, err := rolled(t, 2, version, "auth")
		if diff := cmp.Diff(append([]string{"auth 1", "auth 2"}, last...), events); diff != "" || err != nil {
			t.Errorf("%s: %v, containers (-want +got):\n%s", version, err, diff)
		}
	}
}

func TestRoll_EndsWhereTheSecondOneIsUnhealthy(t *testing.T) {
	t.Setenv("UNHEALTHY", "auth.2-v2")
	events, after, err := rolled(t, 2, "v2")
	diff := cmp.Diff([]string{"setup", "auth 1", "auth 2"}, events)
	if diff != "" || err == nil || after[0] != "auth.1 v1" {
		t.Errorf("%v, %v, containers (-want +got):\n%s", err, after, diff)
	}
}

func TestRoll_RefusesWhatItCannotReplaceOneAtATime(t *testing.T) {
	events, _, err := rolled(t, 3, "v2", "auth")
	if err == nil || len(events) > 0 {
		t.Errorf("three replicas: %v, %v", err, events)
	}
}

// up -d leaves each container its number, and the proxy looks for 1 and 2.
func TestRoll_SaysHowContainersGetTheirNumbersBack(t *testing.T) {
	t.Setenv("LEFT", "auth.3-v1")
	events, _, err := rolled(t, 1, "v2", "auth")
	if err == nil || len(events) > 0 || !strings.Contains(err.Error(), "rm -sf auth") {
		t.Errorf("containers 1 and 3: %v, %v", err, events)
	}
}
