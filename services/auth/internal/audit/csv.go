package audit

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// columns are the names in the header of a file.
var columns = []string{
	"id", "at", "event", "actor_kind", "actor_id", "actor_name", "subject_id", "subject_name", "ip", "agent",
	"request_id", "session_key", "detail", "count",
}

// CSV writes entries as a file (RFC 4180) with a header.
type CSV struct{ w *csv.Writer }

// NewCSV returns a CSV whose file begins with the header.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{csv.NewWriter(w)}
	c.w.UseCRLF = true
	return c, c.w.Write(columns)
}

// Write adds entries.
func (c *CSV) Write(entries []Entry) error {
	for _, e := range entries {
		detail := ""
		if e.Detail != nil {
			encoded, err := json.Marshal(e.Detail)
			if err != nil {
				return fmt.Errorf("encode detail of %s: %w", e.Event.Name, err)
			}
			detail = string(encoded)
		}
		row := []string{
			number(e.ID), e.At.UTC().Format(time.RFC3339), e.Event.Name, string(e.Kind), number(e.Actor.ID),
			e.Actor.Name,
			number(e.SubjectID), e.SubjectName, e.IP, e.Agent, e.RequestID, e.SessionKey, detail, number(e.Count),
		}
		for i := range row {
			row[i] = inert(row[i])
		}
		if err := c.w.Write(row); err != nil {
			return err
		}
	}
	c.w.Flush()
	return c.w.Error()
}

// number returns n in decimal digits, "" for 0.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// inert puts an apostrophe before a cell that a spreadsheet might take for a formula, because
// some cells hold what people have typed.
func inert(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
