package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// result is what one section found. It is kept as JSON, so that sections can be
// measured one by one.
type result struct {
	Date    string `json:"date"`    // 2006-01-02
	Machine string `json:"machine"` // a sentence about it and its programs
	Rounds  int    `json:"rounds"`
	Text    string `json:"text"` // Markdown
	// Picture is an SVG, of the section that has one.
	Picture string `json:"picture,omitempty"`
}

func (s *suite) resultOf(p *page) result {
	return result{Date: time.Now().UTC().Format(time.DateOnly), Machine: s.machine(), Rounds: p.measured, Text: p.String(), Picture: p.picture}
}

// machine describes what is measured on.
func (s *suite) machine() string {
	kilobytes, _ := strconv.Atoi(strings.TrimSuffix(valueIn("/proc/meminfo", "MemTotal"), " kB")) // 0 where the kernel does not report it
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	redis, _, _ := strings.Cut(s.version("redis-server"), " sha=")
	return fmt.Sprintf("%s, %d cores, %d GB of memory, Linux %s, %s; peers run on Node %s, sessions are in %s",
		valueIn("/proc/cpuinfo", "model name"), runtime.NumCPU(), (kilobytes+512<<10)>>20, strings.TrimSpace(string(kernel)), runtime.Version(), s.version("node"), redis)
}

// keep writes the result of a section into a folder.
func keep(folder, section string, r result) error {
	text, err := json.MarshalIndent(r, "", "\t")
	return errors.Join(err, os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, section+".json"), text, 0o644))
}

// publish writes the page, with a picture beside it, of all results in a folder.
func publish(folder, file string) error {
	all := map[string]result{}
	for _, section := range sections {
		text, err := os.ReadFile(filepath.Join(folder, section.name+".json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var r result
		if err := errors.Join(err, json.Unmarshal(text, &r)); err != nil {
			return fmt.Errorf("the result of %s: %w", section.name, err)
		}
		all[section.name] = r
		if r.Picture != "" {
			if err := os.WriteFile(strings.TrimSuffix(file, ".md")+".svg", []byte(r.Picture), 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(file, []byte(assemble(all)), 0o644)
}

// assemble returns the page of all sections. It names those that were not measured.
func assemble(all map[string]result) string {
	var p page
	p.line("# Performance")
	p.line("\n`make bench` writes this page. A figure is the median of the rounds, with the least and the greatest; what misses its goal is marked.")
	p.line("The load comes from wrk on the same machine: %d clients, with a session or payments of their own. Compared servers run side by side\n"+
		"and take turns of a second, %d in each round; ratios are those of turns next to each other.", clients, turns)
	machine := ""
	for _, section := range sections {
		r, measured := all[section.name]
		if !measured {
			p.line("\n%s: not measured.", section.name)
			continue
		}
		if r.Machine != machine {
			p.line("\nMachine: %s.", r.Machine)
			machine = r.Machine
		}
		p.line("%s\n\nMeasured on %s in %d rounds.", strings.TrimSuffix(r.Text, "\n"), r.Date, r.Rounds)
	}
	return p.String()
}
