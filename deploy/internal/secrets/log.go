package secrets

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// The files of the log of receipts.
const (
	LogKey    = "log-key.pem"
	LogPolicy = "log-policy"
	// mirror is the folder of the mirror, which copies the log.
	mirror = "mirror"
)

// WitnessKey returns the name of the file with a witness's key. The first witness has the
// number 1.
func WitnessKey(number int) string { return witnessName(number) + "-key.pem" }

// WitnessState returns the name of the file with what a witness has cosigned.
func WitnessState(number int) string { return witnessName(number) + "-state.json" }

// WitnessID returns the name in the key of a witness of ours for the log of a host.
func WitnessID(host string, number int) string { return host + "/" + witnessName(number) }

// MakeLog makes, where they are not there yet, the key of the log of receipts of a host
// (with its port, where it has one), a witness for each address, and the policy that asks
// all of them: for the verifier, and for the witnesses and a mirror, which read from it
// whose log they cosign or copy. The policy names the first generation alone: a later one
// is added when it begins, because the holder of the log's key could have another log cosigned
// under the name of each generation in it. ErrRestore.
//
// A witness whose state is lost would cosign a second history: the file is made together
// with its key, and never again.
func MakeLog(folder, host string, witnesses []string) error {
	if err := restored(folder); err != nil {
		return err
	}
	key, err := makeKey(path(folder, verifier, LogKey))
	if err != nil {
		return err
	}
	var policy strings.Builder
	log, err := receiptlog.NewLogSigner(host+"/v1/log/1", key)
	if err != nil {
		return fmt.Errorf("the log of %s: %w", host, err)
	}
	fmt.Fprintf(&policy, "log %s\n", log.Key)
	places := []string{verifier, mirror}
	for i, url := range witnesses {
		name := witnessName(i + 1)
		file := path(folder, name, WitnessKey(i+1))
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			if err := once(path(folder, name, WitnessState(i+1)), "{}\n", private); err != nil {
				return err
			}
		}
		key, err := makeKey(file)
		if err != nil {
			return err
		}
		witness, err := receiptlog.NewWitnessSigner(WitnessID(host, i+1), key, time.Now)
		if err != nil {
			return err
		}
		fmt.Fprintf(&policy, "witness %s %s %s\n", name, witness.Key, url)
		places = append(places, name)
	}
	policy.WriteString("group ours all")
	for i := range witnesses {
		policy.WriteString(" " + witnessName(i+1))
	}
	policy.WriteString("\nquorum ours\n")
	for _, place := range places {
		if err := once(path(folder, place, LogPolicy), policy.String(), private); err != nil {
			return err
		}
	}
	return nil
}

// AddLog names a later generation of the log of receipts, by the key in the folder, in the
// policies of the verifier, the witnesses and the mirror, before the earlier ones, and returns
// its verifier key. Each witness cosigns it only once it was started with --begin.
func AddLog(folder, origin string) (vkey string, err error) {
	text, err := os.ReadFile(path(folder, verifier, LogKey))
	if err != nil {
		return "", fmt.Errorf("the key of the log: %w", err)
	}
	key, err := receiptlog.ParsePrivateKey(text)
	if err != nil {
		return "", err
	}
	log, err := receiptlog.NewLogSigner(origin, key)
	if err != nil {
		return "", err
	}
	vkey = log.Key.String()
	places, err := filepath.Glob(filepath.Join(folder, "*", LogPolicy))
	if err != nil {
		return "", err
	}
	for _, file := range append(places, filepath.Join(folder, LogPolicy)) {
		text, err := os.ReadFile(file) //nolint:gosec // our own file
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		policy, err := receiptlog.ParsePolicy(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		known, earlier := false, false
		for _, l := range policy.Logs {
			known = known || l.Key.String() == vkey
			earlier = earlier || receiptlog.SameLog(l.Key.Name(), origin)
		}
		if !earlier {
			return "", fmt.Errorf("%s names no log of which %s is a generation", file, origin)
		}
		if known {
			continue
		}
		if err := WriteFile(file, strings.NewReader("log "+vkey+"\n"+string(text)), private); err != nil {
			return "", err
		}
	}
	return vkey, nil
}

// makeKey makes a key that signs logs or cosigns them, where it is not there yet, and
// returns it.
func makeKey(file string) (ed25519.PrivateKey, error) {
	fresh, err := newReceiptKey() // of the same kind
	if err != nil {
		return nil, err
	}
	if err := once(file, fresh, private); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file) //nolint:gosec // our own file
	if err != nil {
		return nil, fmt.Errorf("a key of the log: %w", err)
	}
	return receiptlog.ParsePrivateKey(text)
}

// LogIsOf reports whether the log of receipts in a folder is, or will be, that of a host.
func LogIsOf(folder, host string) (bool, error) {
	policy, err := os.ReadFile(path(folder, verifier, LogPolicy))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("the policy of the log: %w", err)
	}
	return strings.HasPrefix(string(policy), "log "+host+"/v1/log/"), nil
}
