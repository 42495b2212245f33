package observability

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Metric is one row of the page of metrics.
type Metric struct {
	// Program is the heading that the row stands below.
	Program string
	Name    string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string // sorted
	// Meaning is the last cell of the row.
	Meaning string
}

var (
	rowPattern = regexp.MustCompile("^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| (.*?) ?\\| (.*) \\|$")
	labelled   = regexp.MustCompile("^`([a-z_]+)`$")
)

// ReadPage reads the page of metrics at path, which has the form of deploy/docs/metrics.md, and
// returns them by name. It fails for a malformed row and for a name that comes twice.
func ReadPage(path string) (map[string]Metric, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the caller names the page
	if err != nil {
		return nil, fmt.Errorf("read the page of metrics: %w", err)
	}
	metrics := map[string]Metric{}
	program := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			program = heading
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		m, err := readRow(line)
		if err != nil {
			return nil, err
		}
		if _, twice := metrics[m.Name]; twice {
			return nil, fmt.Errorf("%s is listed twice", m.Name)
		}
		m.Program = program
		metrics[m.Name] = m
	}
	return metrics, nil
}

func readRow(line string) (Metric, error) {
	cells := rowPattern.FindStringSubmatch(line)
	if cells == nil {
		return Metric{}, fmt.Errorf("not a row of a metric: %s", line)
	}
	m := Metric{Name: cells[1], Type: cells[2], Meaning: cells[4]}
	for label := range strings.SplitSeq(cells[3], ", ") {
		if label == "" {
			continue
		}
		name := labelled.FindStringSubmatch(label)
		if name == nil {
			return Metric{}, fmt.Errorf("%s: not a label: %s", m.Name, label)
		}
		m.Labels = append(m.Labels, name[1])
	}
	slices.Sort(m.Labels)
	return m, nil
}
