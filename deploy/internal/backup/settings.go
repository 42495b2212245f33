package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/pforte/pforte/pkg/sqldb"
)

// Settings are the places of what is saved.
type Settings struct {
	Users       string `env:"USERS_DATABASE_URL,required" secret:"true" doc:"auth's DATABASE_URL, or none"`
	Ledger      string `env:"LEDGER_DATABASE_URL,required" secret:"true" doc:"the verifier's DATABASE_URL, or none"`
	SigningKey  string `env:"RECEIPT_SIGNING_KEY_FILE,required" doc:"the verifier's"`
	RetiredKeys string `env:"RECEIPT_RETIRED_KEYS_FILE" doc:"the verifier's, where it has one"`
}

// None in place of a database's URL means that the database is saved in another
// way. An archive then has none, and one that has one is refused.
const None = "none"

// Validate returns what is wrong with the settings.
func (s *Settings) Validate() error {
	var faults []error
	for name, url := range map[string]string{"USERS_DATABASE_URL": s.Users, "LEDGER_DATABASE_URL": s.Ledger} {
		if url == None {
			continue
		}
		if err := sqldb.CheckURL(url); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}

// item is one thing that is saved.
type item struct {
	// name of its file in the archive.
	name string
	thing
}

// thing can be saved to a file and restored from one.
type thing interface {
	// save writes a new file, and reports whether there is anything to save.
	save(ctx context.Context, to string) (bool, error)
	// check returns an error unless the file is whole.
	check(ctx context.Context, file string) error
	// free returns an error when something is where it would be put.
	free(ctx context.Context) error
	// put restores the file.
	put(ctx context.Context, file string) error
	// remove undoes put.
	remove() error
}
