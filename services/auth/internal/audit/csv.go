package audit

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"
)

// MaxFile is how many entries WriteCSV writes at most.
const MaxFile = 20_000

// columns are the names in the header of a file.
var columns = []string{
	"id", "at", "event", "actor_kind", "actor_id", "actor_name", "subject_id", "subject_name", "ip", "agent",
	"request_id", "session_key", "detail", "count",
}

// WriteCSV writes the newest entries that a query selects as CSV (RFC 4180) with a header, at most MaxFile; its Limit
// is not used.
func (r *Recorder) WriteCSV(ctx context.Context, to io.Writer, q Query) error {
	file := csv.NewWriter(to)
	file.UseCRLF = true
	if err := file.Write(columns); err != nil {
		return err
	}
	for written := 0; written < MaxFile; written += MaxPage {
		q.Limit = MaxPage
		entries, next, err := r.Entries(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range entries {
			row, err := e.cells()
			if err != nil {
				return err
			}
			if err := file.Write(row); err != nil {
				return err
			}
		}
		file.Flush()
		if err := file.Error(); err != nil || next == (Cursor{}) {
			return err
		}
		q.Before = next
	}
	return nil
}

// cells returns the row of an entry.
func (e Entry) cells() ([]string, error) {
	detail, err := e.EncodedDetail()
	if err != nil {
		return nil, err
	}
	row := []string{
		number(e.ID), e.At.UTC().Format(time.RFC3339), e.Event.Name, string(e.Kind), number(e.Actor.ID),
		e.Actor.Name, number(e.SubjectID), e.SubjectName, e.IP, e.Agent, e.RequestID, e.SessionKey, detail,
		number(e.Count),
	}
	for i := range row {
		row[i] = inert(row[i])
	}
	return row, nil
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
