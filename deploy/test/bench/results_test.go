package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A page has its sections behind marks, <!-- section NAME -->, so that they can be measured one by one: what a run has
// not measured stays. What stands between the heading and the first mark is written by hand.
const mark = "<!-- section %s -->\n"

// textOf returns the text of a section: what was measured, on which machine, when and how often.
func (s *suite) textOf(p *page) string {
	return fmt.Sprintf("\n%s\n\nMeasured on %s in %d rounds: %s.\n", strings.Trim(p.String(), "\n"), time.Now().UTC().Format(time.DateOnly), p.measured, s.machine())
}

// machine describes what is measured on.
func (s *suite) machine() string {
	kilobytes, _ := strconv.Atoi(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal"), " kB")) // 0 where the kernel does not report it
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	redis, _, _ := strings.Cut(s.version("redis-server"), " sha=")
	return fmt.Sprintf("%s, %d cores, %d GB of memory, Linux %s, %s; peers run on Node %s, sessions are in %s",
		valueIn("/proc/cpuinfo", "model name"), runtime.NumCPU(), (kilobytes+512<<10)>>20, strings.TrimSpace(string(kernel)), runtime.Version(), s.version("node"), redis)
}

// publish writes the text of a section into a page, and its picture, if it has one, beside it.
func publish(file, section, text, picture string) error {
	if picture != "" {
		if err := os.WriteFile(strings.TrimSuffix(file, ".md")+".svg", []byte(picture), 0o644); err != nil {
			return err
		}
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, []byte(insert(string(before), section, text)), 0o644)
}

// insert returns a page with another text of a section. It names the sections that were never measured.
func insert(before, section, text string) string {
	head, _, found := strings.Cut(before, fmt.Sprintf(mark, sections[0].name))
	if !found {
		head = "# Performance\n\n"
	}
	var after strings.Builder
	after.WriteString(head)
	for _, s := range sections {
		_, _ = fmt.Fprintf(&after, mark, s.name)
		switch kept, ok := textIn(before, s.name); {
		case s.name == section:
			after.WriteString(text + "\n")
		case ok:
			after.WriteString(kept)
		default:
			after.WriteString("\n" + s.name + ": not measured.\n\n")
		}
	}
	return strings.TrimRight(after.String(), "\n") + "\n"
}

// textIn returns the text of a section of a page. It reports whether the page has it.
func textIn(page, section string) (string, bool) {
	_, text, found := strings.Cut(page, fmt.Sprintf(mark, section))
	text, _, _ = strings.Cut(text, "<!-- section ")
	return strings.TrimRight(text, "\n") + "\n\n", found
}
