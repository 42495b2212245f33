package arch

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// lawPages are the pages of rules, with the module whose tests they name without one.
var lawPages = map[string]string{
	"deploy/docs/contracts/auth.md":     "services/auth",
	"deploy/docs/contracts/verifier.md": "services/verifier",
}

var (
	chapterLine = regexp.MustCompile(`(?m)^## (\d+)\. `)
	ruleLine    = regexp.MustCompile(`(?m)^- (.*)$`)
	ruleNumber  = regexp.MustCompile(`^\*\*([A-Z]+-\d+\.\d+)\*\* `)
	ruleTest    = regexp.MustCompile("`(?:([a-z/]+): )?(Test[A-Z]\\w*)`")
	citedRule   = regexp.MustCompile(`\b(?:AUTH|VERIFIER)-\d+(?:\.\d+)?\b`)
	// citedSection is a rule cited by the section of a page that is not in the repository.
	citedSection = regexp.MustCompile(`(?i)\bcontract,? \(?sections?\b|\bcontract \(section|\bcontract's section|DECISIONS\.md`)
)

// Law returns every rule without a test, every test that a rule names and that its module
// has not, every number that is used twice, and every cited number that no rule has.
func Law(project fs.FS) ([]string, error) {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	tests := map[string]bool{} // module: name
	texts := map[string]string{}
	err := walk(project, func(name string, text func() (string, error)) error {
		if !isText(name) {
			return nil
		}
		var err error
		texts[name], err = text()
		if strings.HasSuffix(name, "_test.go") {
			for _, written := range writtenTest.FindAllStringSubmatch(texts[name], -1) {
				tests[moduleOf(Root+name)+": "+written[1]] = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rules := map[string]bool{} // and their chapters
	for page, module := range lawPages {
		for _, chapter := range chapterLine.FindAllStringSubmatch(texts[page], -1) {
			rules[strings.ToUpper(strings.TrimSuffix(path.Base(page), ".md"))+"-"+chapter[1]] = true
		}
		for _, line := range ruleLine.FindAllStringSubmatch(texts[page], -1) {
			number := ruleNumber.FindStringSubmatch(line[1])
			if number == nil {
				fault("%s: a rule without a number: %.60s", page, line[1])
				continue
			}
			if rules[number[1]] {
				fault("%s: %s is the number of two rules", page, number[1])
			}
			rules[number[1]] = true
			named := ruleTest.FindAllStringSubmatch(line[1], -1)
			if len(named) == 0 {
				fault("%s: %s has no test", page, number[1])
			}
			for _, test := range named {
				in := test[1]
				if in == "" {
					in = module
				}
				if !tests[in+": "+test[2]] {
					fault("%s: %s names %s, which %s does not have", page, number[1], test[2], in)
				}
			}
		}
	}
	for name, text := range texts {
		for _, number := range citedRule.FindAllString(text, -1) {
			if !rules[number] {
				fault("%s cites %s, which is no rule", name, number)
			}
		}
		for _, line := range comment.FindAllStringSubmatch(text, -1) {
			if path.Ext(name) == ".go" && citedSection.MatchString(line[1]) {
				fault("%s cites a section and not the number of a rule:%s", name, line[1])
			}
		}
	}
	slices.Sort(faults)
	return faults, nil
}

func TestLaw_FindsWhatIsNotProvenOrIsNoRule(t *testing.T) {
	numbers := strings.NewReplacer("A-", "AUTH"+"-", "V-", "VERIFIER"+"-") // in pieces, because this file is searched as well
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(numbers.Replace(text))} }
	faults, err := Law(fstest.MapFS{
		"services/auth/a_test.go": file("package a\nfunc TestHere(t *testing.T) {}\n"),
		"pkg/receipt/b_test.go":   file("package b\nfunc TestThere(t *testing.T) {}\n"),
		"services/auth/a.go":      file("// A-1.1 and A-1 hold, A-7 and V-1.2 do not.\n// See the contract, section 4.\n// An RFC has a section 4 too."),
		"deploy/docs/contracts/auth.md": file("# The rules\n\n## 1. Some\n\n" +
			"- **A-1.1** Right. `TestHere` `pkg/receipt: TestThere`\n" +
			"- **A-1.2** Unproven.\n- **A-1.2** Twice. `TestThere`\n- Not numbered. `TestHere`\n"),
		"deploy/docs/contracts/verifier.md": file("- **V-1.1** Elsewhere. `TestHere`\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"deploy/docs/contracts/auth.md: A-1.2 has no test", "deploy/docs/contracts/auth.md: A-1.2 is the number of two rules",
		"deploy/docs/contracts/auth.md: A-1.2 names TestThere, which services/auth does not have",
		"deploy/docs/contracts/auth.md: a rule without a number: Not numbered. `TestHere`",
		"deploy/docs/contracts/verifier.md: V-1.1 names TestHere, which services/verifier does not have",
		"services/auth/a.go cites A-7, which is no rule", "services/auth/a.go cites V-1.2, which is no rule",
		"services/auth/a.go cites a section and not the number of a rule: See the contract, section 4.",
	}
	for i := range want {
		want[i] = numbers.Replace(want[i])
	}
	if !slices.Equal(faults, want) {
		t.Errorf("got\n%s", strings.Join(faults, "\n"))
	}
}
