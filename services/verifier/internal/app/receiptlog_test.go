package app

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
	"github.com/pforte/pforte/pkg/receipt/witness"
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment/ledger"
	"github.com/pforte/pforte/services/verifier/internal/payment/paywall"
	"github.com/pforte/pforte/services/verifier/internal/translog"
	"github.com/pforte/pforte/services/verifier/internal/translog/logsql"
)

const logHost = "seller.example"

// withLog gives the program a log key and so many witnesses, of which all must cosign.
func (w *world) withLog(witnesses int) {
	w.Helper()
	key, err := receipt.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))
	w.must(err)
	pem, err := key.PEM()
	w.must(err)
	private, err := receiptlog.ParsePrivateKey(pem)
	w.must(err)
	policy, names := "", ""
	for i := range witnesses {
		name := fmt.Sprintf("w%d", i)
		seed := sha256.Sum256([]byte(name))
		signer, err := receiptlog.NewWitnessSigner(name, ed25519.NewKeyFromSeed(seed[:]), time.Now)
		w.must(err)
		_, vkey, err := translog.Name(logHost, private, 1)
		w.must(err)
		log, err := receiptlog.ParseLogKey(vkey)
		w.must(err)
		state := filepath.Join(w.TempDir(), "state")
		w.must(witness.Create(state))
		handler, err := witness.Open(witness.Options{Signer: signer, Logs: []receiptlog.Key{log}, State: state})
		w.must(err)
		server := httptest.NewServer(handler)
		w.Cleanup(server.Close)
		policy += fmt.Sprintf("witness %s %s %s\n", name, signer.Key, server.URL)
		names += " " + name
	}
	if witnesses == 0 {
		policy = "quorum none\n"
	} else {
		policy += "group all all" + names + "\nquorum all\n"
	}
	folder := w.TempDir()
	w.must(os.WriteFile(filepath.Join(folder, "log.pem"), pem, 0o600))
	w.must(os.WriteFile(filepath.Join(folder, "policy"), []byte(policy), 0o600))
	w.env["RECEIPT_LOG_KEY_FILE"], w.env["LOG_POLICY_FILE"] = filepath.Join(folder, "log.pem"), filepath.Join(folder, "policy")
	w.env["LOG_MARK_FILE"], w.env["LOG_INTERVAL"] = filepath.Join(folder, "mark"), "20ms"
	w.env[crashAfter] = filepath.Join(folder, "crash")
}

// wantProof waits for the proof of an answer, and checks it by the log's own policy.
func (w *world) wantProof(url, answer string) receiptlog.Result {
	w.Helper()
	doc, err := receipt.Parse([]byte(answer))
	w.must(err)
	entry, err := receiptlog.EntryOf(doc)
	w.must(err)
	leaf := entry.Leaf()
	_, list := get(w.T, url+"/.well-known/receipt-log.json")
	d, err := receiptlog.ParseDirectory([]byte(list))
	w.must(err)
	policy, err := receiptlog.ParsePolicy([]byte(d.Policy))
	w.must(err)
	keys, err := receipt.NewKeyDocument(w.key, "eip155:8453")
	w.must(err)
	until := time.Now().Add(30 * time.Second)
	for {
		status, proof := get(w.T, url+d.Logs[0].Prefix+"/proof/"+hex.EncodeToString(leaf[:]))
		if status == http.StatusAccepted && time.Now().Before(until) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if status != http.StatusOK {
			w.Fatalf("the proof is answered %d %s", status, proof)
		}
		result, err := receiptlog.Verify(doc, keys, []byte(proof), policy.WithList(d))
		w.must(err)
		return result
	}
}

func TestLog_EverySaleHasAWitnessedProofWhereverItIsKilled(t *testing.T) {
	points := []paywall.Point{paywall.Begun, paywall.Finished}
	for _, p := range []translog.Point{translog.Placing, translog.Sequenced, translog.Signed, translog.Cosigned, translog.Witnessed, translog.Published} {
		points = append(points, paywall.Point("log "+string(p)))
	}
	sqldbtest.Each(t, func(t *testing.T, url string) {
		for i, point := range points {
			t.Run(string(point), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, sqldbtest.Another(t, url))
				w.withLog(2)
				paid := w.pay(fmt.Sprint(i + 1))
				first, process := w.spawn(point)
				w.must(os.WriteFile(w.env[crashAfter], []byte("now"), 0o600))
				w.post(first, paid)
				_ = process.Wait()
				second, _ := w.spawn("never")
				w.comeBack(second, paid)
				_, answer := w.post(second, paid)
				if result := w.wantProof(second, answer); len(result.Cosignatures) != 2 {
					t.Errorf("%+v", result)
				}
				w.wantTransfers(1)
				if text := w.command(nil, "log", "audit"); strings.Contains(text, "FAULT") {
					t.Error(text)
				}
			})
		}
	})
}

// lossyDisk is a database that loses its last commits.
type lossyDisk struct {
	*world
	replica *sqldbtest.Replica // nil on SQLite
	file    string             // of SQLite
}

// keep fixes what the database will have when it has lost the rest. No process has it open.
// On SQLite that is what a disk has that has taken nothing since, although it said so; on
// Postgres, what an asynchronous replica has got.
func (w *world) keep() *lossyDisk {
	w.Helper()
	url := w.env["DATABASE_URL"]
	file, isFile := strings.CutPrefix(url, "sqlite:")
	d := &lossyDisk{world: w, file: file}
	if isFile {
		w.copy(file, file+".kept")
		return d
	}
	d.replica = sqldbtest.NewReplica(w.T, url)
	d.replica.Detach()
	return d
}

// lose is the loss of power, or the failover to the replica.
func (d *lossyDisk) lose() {
	d.Helper()
	if d.replica == nil {
		d.copy(d.file+".kept", d.file)
		return
	}
	d.env["DATABASE_URL"] = d.replica.Promote()
}

func TestLog_ALedgerThatLostCommitsMakesNoSecondHistory(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		for _, c := range []struct {
			point    translog.Point
			lostMark bool   // with the ledger
			frozen   string // "" where an operator may resume the log, because the witnesses have no more
		}{
			{translog.Placing, true, ""},
			{translog.Sequenced, true, ""}, // nothing was signed
			{translog.Signed, true, ""},    // nobody has the signature
			{translog.Signed, false, translog.FrozenMark},
			{translog.Cosigned, true, translog.FrozenNoMark},
			{translog.Witnessed, true, translog.FrozenNoMark},
			{translog.Published, true, translog.FrozenNoMark},
		} {
			t.Run(fmt.Sprintf("%s, mark lost %v", c.point, c.lostMark), func(t *testing.T) {
				w := newWorld(t, sqldbtest.Another(t, url))
				w.withLog(2)
				first, process := w.spawn("never")
				w.post(first, w.pay("1"))
				_, answer := w.post(first, w.pay("1"))
				w.wantProof(first, answer)
				_ = process.Process.Kill()
				_ = process.Wait()
				w.queue("lost")
				disk := w.keep()
				w.must(os.WriteFile(w.env[crashAfter], []byte("now"), 0o600))
				process, _ = w.start(paywall.Point("log " + string(c.point)))
				_ = process.Wait()
				disk.lose()
				if c.lostMark {
					w.must(os.Remove(w.env["LOG_MARK_FILE"]))
				}
				w.queue("other")
				second, _ := w.spawn("never")
				if c.lostMark {
					w.waitForStatus(translog.FrozenNoMark)
					if err := execute(w.getenv, io.Discard, "log", "resume"); (err == nil) != (c.frozen == "") {
						t.Errorf("resume: %v", err)
					}
				}
				if c.frozen == "" {
					w.waitForStatus("published  4 entries") // the key, the receipt, and what was queued
					if text := w.command(nil, "log", "audit"); strings.Contains(text, "FAULT") || strings.Contains(text, "not compared") {
						t.Error(text)
					}
				} else {
					w.waitForStatus(c.frozen)
					w.waitForStatus("published  2 entries")
					w.comeBack(second, w.pay("2"))
				}
				w.wantProof(second, answer)
			})
		}
	})
}

// Whichever of the two is the next to give places is killed as it does.
func TestLog_AReplicaGoesOnWhereAnotherIsKilled(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		t.Parallel()
		w := newWorld(t, url)
		w.withLog(2)
		var urls [2]string
		killed := make(chan int, len(urls))
		for i := range urls {
			address, process := w.spawn("log placing")
			urls[i] = address
			ended := make(chan struct{})
			go func() { defer close(ended); _ = process.Wait(); killed <- i }()
			w.Cleanup(func() { _ = process.Process.Kill(); <-ended })
		}
		w.must(os.WriteFile(w.env[crashAfter], []byte("now"), 0o600))
		paid := w.pay("1")
		w.post(urls[0], paid)
		var left string
		select {
		case i := <-killed:
			left = urls[1-i]
		case <-time.After(time.Minute):
			t.Fatal("neither is killed")
		}
		w.comeBack(left, paid)
		_, answer := w.post(left, paid)
		w.wantProof(left, answer)
		if text := w.command(nil, "log", "audit"); strings.Contains(text, "FAULT") {
			t.Error(text)
		}
	})
}

// A failover to a replica that lacks what was published, and back to it by a mirror.
func TestLog_AMirrorReturnsWhatAFailoverLost(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.withLog(2)
		_, process := w.spawn("never") // the listed key has its place
		w.waitForStatus("published  1 entries")
		_ = process.Process.Kill()
		_ = process.Wait()
		disk := w.keep()
		first, process := w.spawn("never")
		w.post(first, w.pay("1"))
		_, answer := w.post(first, w.pay("1"))
		w.wantProof(first, answer)
		mirror := w.mirror(first)
		_ = process.Process.Kill()
		_ = process.Wait()
		disk.lose()
		w.must(os.Remove(w.env["LOG_MARK_FILE"]))
		w.queue("other")
		second, _ := w.spawn("never")
		w.waitForStatus(translog.FrozenNoMark)
		if err := execute(w.getenv, io.Discard, "log", "resume"); err == nil {
			t.Error("it resumes without what was lost")
		}
		w.command(nil, "log", "recover", "--from", mirror)
		w.wantProof(second, answer)
		w.waitForStatus("published  3 entries")
		if text := w.command(nil, "log", "audit"); strings.Contains(text, "FAULT") || !strings.Contains(text, "1 entries came back from a copy, the first at 1") || !strings.Contains(text, "every entry was queued here or came back;") {
			t.Error(text)
		}
	})
}

// copy copies a SQLite database that no process has open.
func (w *world) copy(from, to string) {
	w.Helper()
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(from + suffix)
		if os.IsNotExist(err) {
			_ = os.Remove(to + suffix)
			continue
		}
		w.must(err)
		w.must(os.WriteFile(to+suffix, text, 0o600))
	}
	_ = os.Remove(to + "-shm")
}

// queue queues the entry of a listed key.
func (w *world) queue(name string) {
	w.Helper()
	sum := sha256.Sum256([]byte(name))
	cfg, err := config.LoadLogged(w.getenv)
	w.must(err)
	set, err := loadLog(cfg.Log, nil, cfg.PublicURL, func([]string) error { return nil })
	w.must(err)
	w.withStore(func(s *logsql.Store) {
		_, err := s.Begin(w.Context(), set.name, []receipt.Key{{KeyID: "sha256:" + hex.EncodeToString(sum[:]), Status: receipt.KeyRetired}})
		w.must(err)
	})
}

// withStore runs do with the store of the log, as one more process has it.
func (w *world) withStore(do func(*logsql.Store)) {
	w.Helper()
	l, err := ledger.Open(w.Context(), w.env["DATABASE_URL"], ledger.Options{Now: time.Now})
	w.must(err)
	do(logStore(l, nil))
	w.must(l.Close())
}

// waitForStatus waits until a text is in what verifier log status prints.
func (w *world) waitForStatus(text string) {
	w.Helper()
	w.waitFor(text, func() bool { return strings.Contains(w.command(nil, "log", "status"), text) })
}

func (w *world) waitFor(what string, holds func() bool) {
	w.Helper()
	for until := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			w.Fatalf("%s does not come", what)
		}
	}
}

func TestLog_AnOlderLedgerFreezesAndRecoversFromAMirror(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, url string) {
		t.Parallel()
		w := newWorld(t, url)
		w.withLog(2)
		r := w.run()
		_, first := w.post(r.url, w.pay("1"))
		w.wantProof(r.url, first)
		mirror := w.mirror(r.url)
		w.must(r.stop())

		w.env["DATABASE_URL"] = sqldbtest.Another(t, url) // an older one: it has nothing at all
		r = w.run()
		w.waitFor("the freeze", func() bool { return strings.Contains(w.command(nil, "log", "status"), translog.FrozenMark) })
		head, err := strconv.Atoi(lastSize(w.command(nil, "log", "status")))
		if err != nil || head < 2 {
			t.Errorf("the witnesses have %d entries, %v", head, err)
		}
		paid := w.pay("2")
		w.wantReceipt(w.post(r.url, paid))
		if err := execute(w.getenv, io.Discard, "log", "resume"); err == nil {
			t.Error("it resumes without what was lost")
		}
		if out := w.command(nil, "log", "recover", "--from", mirror); !strings.Contains(out, "entries came back") {
			t.Error(out)
		}
		w.wantProof(r.url, first)
		_, second := w.post(r.url, paid)
		w.wantProof(r.url, second)
		if text := w.command(nil, "log", "audit"); strings.Contains(text, "FAULT") {
			t.Error(text)
		}
	})
}

// lastSize is what verifier log status says that the last witness has cosigned.
func lastSize(status string) string {
	found := regexp.MustCompile(`(?m)^witness +w\d+: has cosigned (\d+) entries, 0 as the ledger knows$`).FindAllStringSubmatch(status, -1)
	if len(found) != 2 {
		return status
	}
	return found[1][1]
}

// mirror copies what the log serves into a folder.
func (w *world) mirror(url string) string {
	w.Helper()
	folder := w.TempDir()
	_, note := get(w.T, url+"/v1/log/1/checkpoint")
	var size int64
	_, err := fmt.Sscan(strings.Split(note, "\n")[1], &size)
	w.must(err)
	paths := []string{"checkpoint"}
	for tile := range receiptlog.Tiles(0, size) {
		paths = append(paths, tile.Path())
	}
	for _, path := range paths {
		status, body := get(w.T, url+"/v1/log/1/"+path)
		if status != http.StatusOK {
			w.Fatalf("%s: %d", path, status)
		}
		file := filepath.Join(folder, "v1/log/1", path)
		w.must(os.MkdirAll(filepath.Dir(file), 0o700))
		w.must(os.WriteFile(file, []byte(body), 0o600))
	}
	return folder
}

func TestLog_SettingsAreChecked(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.withLog(1)
	if _, err := load(w.getenv); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.env["LOG_POLICY_FILE"])
	w.must(err)
	far := filepath.Join(t.TempDir(), "policy")
	w.must(os.WriteFile(far, bytes.Replace(text, []byte("127.0.0.1"), []byte("witness.example"), 1), 0o600))
	for name, change := range map[string]map[string]string{
		"RECEIPT_LOG_KEY: is the key that signs receipts": {"RECEIPT_LOG_KEY_FILE": w.env["RECEIPT_SIGNING_KEY_FILE"]},
		"RECEIPT_LOG_KEY: key is not":                     {"RECEIPT_LOG_KEY_FILE": w.env["LOG_POLICY_FILE"]},
		"LOG_POLICY_FILE: comes only together":            {"LOG_POLICY_FILE": ""},
		"LOG_POLICY_FILE: policy, line 1":                 {"LOG_POLICY_FILE": w.env["RECEIPT_LOG_KEY_FILE"]},
		"LOG_POLICY_FILE: open ":                          {"LOG_POLICY_FILE": "absent"},
		"LOG_POLICY_FILE: plain http":                     {"LOG_POLICY_FILE": far},
	} {
		env := func(setting string) string {
			if value, changed := change[setting]; changed {
				return value
			}
			return w.env[setting]
		}
		if _, err := load(env); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// What is wrong beside it does not hide that a key signs both receipts and log (VERIFIER-11.2).
func TestLog_SettingsAreCheckedBesideOtherFaults(t *testing.T) {
	for _, setting := range []string{"RECEIPT_RETIRED_KEYS_FILE", "CHAINS_FILE", "LOG_POLICY_FILE"} {
		w := newWorld(t, sqldbtest.SQLite(t))
		w.withLog(1)
		w.env["RECEIPT_LOG_KEY_FILE"] = w.env["RECEIPT_SIGNING_KEY_FILE"]
		w.env[setting] = "absent"
		_, err := load(w.getenv)
		for _, name := range []string{"RECEIPT_LOG_KEY: is the key that signs receipts", setting + ": open absent"} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want %q", err, name)
			}
		}
	}
}

func TestLog_AnotherAddressOrKeyIsAnother(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.withLog(0)
	w.must(w.run().stop())
	first := logHost + "/v1/log/1"
	if err := execute(w.getenv, io.Discard, "log", "close", "--origin", first); err == nil {
		t.Error("a log that is open is closed by its own key")
	}
	w.env["PUBLIC_URL"] = "https://clone.example"
	var stderr lockedBuffer
	process := Process{Process: service.Process{Args: []string{"serve"}, Getenv: w.getenv, Stdout: io.Discard, Stderr: &stderr}}
	if code := Run(t.Context(), process); code == 0 || !strings.Contains(stderr.String(), translog.ErrOtherLog.Error()) {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if out := w.command(nil, "log", "close", "--origin", first); !strings.Contains(out, "clone.example/v1/log/2 begins") {
		t.Error(out)
	}
	w.must(w.run().stop())
}

func TestLog_Commands(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	if err := execute(w.getenv, io.Discard, "log", "status"); err == nil || !strings.Contains(err.Error(), "RECEIPT_LOG_KEY is not set") {
		t.Errorf("without a log: %v", err)
	}
	w.withLog(0)
	w.command(nil, "migrate")
	if err := execute(w.getenv, io.Discard, "log", "status"); err == nil || !strings.Contains(err.Error(), "no log of receipts yet") {
		t.Errorf("before the first start: %v", err)
	}
	r := w.run()
	_, answer := w.post(r.url, w.pay("1"))
	w.wantProof(r.url, answer)
	var s struct {
		Origin, Key, Frozen string
		Size, Published     int64
	}
	w.command(&s, "log", "status", "--json")
	if s.Origin != logHost+"/v1/log/1" || s.Size != 2 || s.Published != 2 || s.Frozen != "" {
		t.Errorf("%+v", s)
	}
	for want, args := range map[string][]string{
		"every entry was queued here": {"log", "audit"},
		"surely yours until then: 0":  {"log", "audit", "--at", "2020-01-01T00:00:00Z"},
		"surely yours until then: 2":  {"log", "audit", "--at", "2200-01-01T00:00:00Z"},
	} {
		if out := w.command(nil, args...); !strings.Contains(out, want) {
			t.Errorf("%v prints %s", args, out)
		}
	}
	for _, args := range [][]string{{"log", "audit", "--at", "yesterday"}, {"log", "recover"}, {"log", "close"}, {"log", "resume", "--size", "x"}, {"log"}, {"log", "status", "more"}} {
		if err := execute(w.getenv, io.Discard, args...); err == nil {
			t.Errorf("%v is understood", args)
		}
	}
	for _, args := range [][]string{{"log", "resume", "--size", "2"}, {"log", "recover", "--from", w.TempDir()}, {"log", "close", "--origin", s.Origin}} {
		if err := execute(w.getenv, io.Discard, args...); err == nil {
			t.Errorf("%v is done to a log that is open", args)
		}
	}
	w.must(r.stop())
	var foreign [64]byte
	entry, err := receiptlog.NewReceiptEntry("sha256:"+strings.Repeat("0a", 32), foreign[:], []byte("foreign"))
	w.must(err)
	w.withStore(func(s *logsql.Store) {
		w.must(s.QueueStored(t.Context(), []translog.StoredEntry{{Payment: 12345, Data: entry.Bytes()}}))
		_, _, err = s.Sequence(t.Context(), 10)
		w.must(err)
	})
	var out strings.Builder
	if err := execute(w.getenv, &out, "log", "audit"); err == nil || !strings.Contains(out.String(), "FAULT: entry 2 was not queued here") || !strings.Contains(out.String(), "revoked now: 2, the first of 1 ") {
		t.Errorf("with a foreign entry: %v, %s", err, out.String())
	}
	w.withStore(func(s *logsql.Store) { w.must(s.Freeze(t.Context(), 1, translog.FrozenRestored)) })
	if err := execute(w.getenv, io.Discard, "log", "resume"); err == nil {
		t.Error("without witnesses it resumes without a size")
	}
	w.command(nil, "log", "resume", "--size", "3")
	w.withStore(func(s *logsql.Store) { w.must(s.Freeze(t.Context(), 1, translog.FrozenFork)) })
	if out := w.command(nil, "log", "close", "--origin", s.Origin); !strings.Contains(out, logHost+"/v1/log/2 begins") {
		t.Error(out)
	}
	if out := w.command(nil, "log", "status"); !strings.Contains(out, "published  0 entries, never\n") {
		t.Error(out)
	}
	r = w.run()
	if result := w.wantProof(r.url, answer); result.Origin != logHost+"/v1/log/2" {
		t.Errorf("%+v", result)
	}
}

func TestServe_RefusesAKeyThatWasRevokedAndIsNoLonger(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t))
	w.withLog(0)
	other, err := receipt.NewKeyFromSeed(bytes.Repeat([]byte{5}, 32))
	w.must(err)
	doc, err := receipt.NewKeyDocument(other, "eip155:1")
	w.must(err)
	list := func(state string) {
		file := filepath.Join(t.TempDir(), "retired-keys.json")
		w.must(os.WriteFile(file, fmt.Appendf(nil, `[{"keyId":%q,"publicKey":%q,%s}]`, doc.KeyID, doc.PublicKey, state), 0o600))
		w.env["RECEIPT_RETIRED_KEYS_FILE"] = file
	}
	list(`"status":"revoked","logged":{"origin":"` + logHost + `/v1/log/1","before":"0"}`)
	w.must(w.run().stop())
	for state, why := range map[string]string{
		`"status":"retired"`: "it was revoked, and is retired",
		`"status":"revoked","logged":{"origin":"` + logHost + `/v1/log/1","before":"900"}`: "its cut-off is 900",
	} {
		list(state)
		if err := execute(w.getenv, io.Discard, "serve"); err == nil || !strings.Contains(err.Error(), "RECEIPT_RETIRED_KEYS_FILE") || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: it starts, or ends with %v", state, err)
		}
	}
}
