package audit_test

import (
	"context"
	"encoding/csv"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/auth/internal/audit"
)

// one is a store with one entry.
type one struct {
	audit.Store
	entry audit.Entry
}

func (s one) Entries(context.Context, audit.Query) ([]audit.Entry, error) {
	return []audit.Entry{s.entry}, nil
}

func TestCSV_ACellASpreadsheetWouldRunIsQuoted(t *testing.T) {
	for cell, want := range map[string]string{
		"=1+1": "'=1+1", "+49": "'+49", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\tx": "'\tx", "\rx": "'x", // with UseCRLF, encoding/csv leaves a lone CR out
		"Anna": "Anna", "": "", "a=1": "a=1", `he said "=1"`: `he said "=1"`, "a,\nb": "a,\nb",
	} {
		var file strings.Builder
		store := one{entry: audit.Entry{
			Event: audit.Event{Name: "login", SubjectName: cell, Detail: map[string]any{"name": cell}}, Count: 1,
		}}
		options := audit.RecorderOptions{Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		r, err := audit.NewRecorder(options)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.WriteCSV(t.Context(), &file, audit.Query{}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(file.String())).ReadAll()
		if err != nil || len(rows) != 2 {
			t.Fatalf("%q: %q, %v", cell, file.String(), err)
		}
		if got := rows[1][7]; got != want {
			t.Errorf("%q is written as %q, want %q", cell, got, want)
		}
		for i, cell := range rows[1] {
			if strings.HasPrefix(cell, "=") {
				t.Errorf("column %s is %q", rows[0][i], cell)
			}
		}
	}
}
