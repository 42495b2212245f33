package arch

import (
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What is published is made by what can be read: an action's tag may be moved, and a cache may
// hold what a change put there.
func TestRelease_UsesActionsByCommitAndNoCache(t *testing.T) {
	workflow := text(t, ".github/workflows/release.yml")
	used := regexp.MustCompile(`(?m)^\s*(?:- )?uses: (\S+)`).FindAllStringSubmatch(workflow, -1)
	if len(used) < 8 {
		t.Errorf("it uses %v", used)
	}
	pinned := regexp.MustCompile(`^(\./\.github/workflows/ci\.yml|[\w.-]+/[\w.-]+@[0-9a-f]{40})$`)
	for _, action := range used {
		if !pinned.MatchString(action[1]) {
			t.Errorf("%s is not named by its commit", action[1])
		}
	}
	if setups := strings.Count(workflow, "actions/setup-go@"); setups == 0 || strings.Count(workflow, "cache: false") != setups {
		t.Error("something is taken from a cache")
	}
	if !strings.Contains(text(t, ".github/workflows/ci.yml"), "\n  workflow_call:\n") {
		t.Error("the checks cannot be called")
	}
}

func TestRelease_IsCheckedBeforeAndApprovedByAPerson(t *testing.T) {
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Needs       string
			Environment string
			Permissions map[string]string
			Strategy    struct{ Matrix struct{ Name []string } }
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, ".github/workflows/release.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	jobs := workflow.Jobs
	if jobs["build"].Needs != "check" || jobs["image"].Needs != "build" || jobs["publish"].Needs != "image" || jobs["publish"].Environment != "release" {
		t.Errorf("the order is %+v", jobs)
	}
	// Who can push an image cannot publish, and the other way round.
	if len(workflow.Permissions) > 0 || jobs["image"].Permissions["contents"] != "read" || jobs["publish"].Permissions["packages"] != "" || jobs["build"].Permissions["packages"] != "" {
		t.Errorf("a job may do too much: %+v", jobs)
	}
	for _, name := range jobs["image"].Strategy.Matrix.Name {
		if !strings.Contains(text(t, "deploy/release/image.go"), `{"`+name+`", `) {
			t.Errorf("%s is made by nothing", name)
		}
	}
	if len(jobs["image"].Strategy.Matrix.Name) != 2 {
		t.Error("an image is not pushed")
	}
}
