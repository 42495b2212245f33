package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// composed are the files whose stack the pages for operators are about.
var composed = []string{"deploy/compose.production.yml", "deploy/compose.scale.yml"}

var (
	namedFile    = regexp.MustCompile(`-f ([a-z./-]+\.yml)`)
	namedVolume  = regexp.MustCompile(`(?:\bpforte-production|\bpforte-home|\$\{PROJECT\})_([\w-]+)`)
	namedService = regexp.MustCompile(`(?:\$P|docker compose(?: [^|<>;&]*?)?)\s(?:run|exec|up)((?:\s--?[a-zA-Z-]+)*)\s([a-z][a-z0-9-]*)\b`)
)

// faultsOfCommands returns what a page names that is not in the compose files, and
// how many names it has of what is there.
func faultsOfCommands(page string, services, volumes map[string]bool) (faults []string, right int) {
	note := func(there bool, fault string) {
		if there {
			right++
		} else {
			faults = append(faults, fault)
		}
	}
	for _, match := range namedFile.FindAllStringSubmatch(page, -1) {
		_, err := os.Stat(filepath.Join(top, match[1]))
		note(err == nil, "file "+match[1])
	}
	for _, match := range namedVolume.FindAllStringSubmatch(page, -1) {
		note(volumes[match[1]], "volume "+match[1])
	}
	for line := range strings.Lines(page) {
		for _, match := range namedService.FindAllStringSubmatch(line, -1) {
			note(services[match[2]], "service "+match[2])
		}
	}
	return faults, right
}

// named returns the services and volumes of compose files.
func named(t *testing.T, files ...string) (services, volumes map[string]bool) {
	t.Helper()
	services, volumes = map[string]bool{}, map[string]bool{}
	for _, file := range files {
		stack := readCompose(t, file)
		for name := range stack.Services {
			services[name] = true
		}
		for name := range stack.Volumes {
			volumes[name] = true
		}
	}
	return services, volumes
}

func TestCommands_OfPagesNameWhatComposeHas(t *testing.T) {
	services, volumes := named(t, composed...)
	for _, page := range []string{"backup.md", "keys.md", "operations.md", "upgrade.md"} {
		faults, right := faultsOfCommands(text(t, "deploy/docs/"+page), services, volumes)
		if len(faults) > 0 || right == 0 {
			t.Errorf("%s: not there: %v; %d names are right", page, faults, right)
		}
	}
	atHome, itsVolumes := named(t, household, evidence)
	if faults, right := faultsOfCommands(text(t, "deploy/docs/household.md"), atHome, itsVolumes); len(faults) > 0 || right < 8 {
		t.Errorf("household.md: not there: %v; %d names are right", faults, right)
	}
	wrong := "docker compose -f deploy/none.yml exec -T nobody ls\n$ $P run --rm -T nothing\n$ $P up -d --wait nowhere\ndocker volume rm pforte-production_no"
	if faults, right := faultsOfCommands(wrong, services, volumes); len(faults) != 5 || right != 0 {
		t.Errorf("found are %v, and %d are right", faults, right)
	}
}

// Without the dot, a second copy would be a folder within the first, whose archives stay the old ones.
func TestCommands_CopyTheArchivesTheSameWayEachTime(t *testing.T) {
	if page := text(t, "deploy/docs/household.md"); !strings.Contains(page, "$ docker compose cp backup:/backups/. ./archives\n") {
		t.Error("household.md copies archives otherwise")
	}
}

// A version that the shell alone has is gone with it: the next command would go back to the former one.
func TestCommands_OfAnUpgradeKeepTheVersion(t *testing.T) {
	kept := regexp.MustCompile(`(?s)\n\$ export VERSION=\S+; git checkout \$VERSION; make images\n` +
		`\$ sed -i "s/\^VERSION=\.\*/VERSION=\$VERSION/" deploy/\.env\n\$ docker compose -f deploy/compose.production.yml up -d\n`)
	if !strings.Contains(text(t, "deploy/docs/operations.md"), "\nVERSION=") || !kept.MatchString(text(t, "deploy/docs/upgrade.md")) {
		t.Error("upgrade.md does not write the version down where operations.md has it")
	}
}

// The stack with Postgres has no SQLite file to save, and our images no pg_dump.
func TestCommands_ScaledStackSavesKeysWithoutDatabases(t *testing.T) {
	backup, verifier := environments(t, composed[1])["backup"], environments(t, composed[0])["verifier"]
	for _, name := range []string{"USERS_DATABASE_URL", "LEDGER_DATABASE_URL"} {
		if backup[name] != "none" {
			t.Errorf("%s is %v", name, backup[name])
		}
	}
	for _, name := range []string{"RECEIPT_SIGNING_KEY_FILE", "RECEIPT_RETIRED_KEYS_FILE", "RECEIPT_LOG_KEY_FILE"} {
		used, _ := verifier[name].(string)
		if saved := environments(t, composed[0])["backup"][name]; saved != whenSet(used) || saved == nil {
			t.Errorf("%s: saved is %v, used is %v", name, saved, verifier[name])
		}
	}
}
