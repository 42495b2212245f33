package finality_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/internal/verdict"
)

var notes verdict.Notes

// note has the npm module judge a document too.
func note(d *finality.Document, trust finality.Trust) {
	text, err := json.Marshal(d)
	if err != nil {
		return // it has no text
	}
	q := verdict.Question{
		Finality: text, Checkpoint: trust.Checkpoint.String(), MaxCheckpointAge: int64(trust.MaxAge / time.Second),
	}
	if trust.Network != nil {
		if q.Network, err = json.Marshal(trust.Network); err != nil {
			return
		}
	}
	notes.Add(q)
}

func TestMain(m *testing.M) { os.Exit(notes.Main(m, "..", verdict.JavaScript)) }
