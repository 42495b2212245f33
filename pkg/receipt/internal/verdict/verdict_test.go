package verdict

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
)

var (
	update    = flag.Bool("update", false, "write the verdicts in testdata anew")
	mutations = flag.Int("mutations", 10_000, "how many documents have one byte changed")
	seed      = flag.Uint64("seed", 1, "which bytes are changed, and how")
)

// top is the folder that the names of files begin in: pkg/receipt.
const top = "../.."

// line is one document to judge and its verdict, as the packages read them.
type line struct {
	Name string `json:"name"`
	// Documents are files below pkg/receipt, by what they are: answer, keys, log, policy, list,
	// finality, network.
	Documents        map[string]string `json:"documents"`
	Edits            []edit            `json:"edits,omitempty"`
	Checkpoint       string            `json:"checkpoint,omitempty"`
	MaxCheckpointAge int64             `json:"maxCheckpointAge,omitempty"`
	Kind             string            `json:"kind,omitempty"`
	WithoutProof     bool              `json:"withoutProof,omitempty"`
	Verdict          Verdict           `json:"verdict"`
}

// edit is a change of one document: bytes from a place on are taken out, and others put in.
type edit struct {
	Document string `json:"document"`
	At       int    `json:"at"`
	Remove   int    `json:"remove"`
	Insert   []byte `json:"insert"` // base64
}

var files = map[string][]byte{}

func read(t testing.TB, path string) []byte {
	t.Helper()
	if files[path] == nil {
		data, err := os.ReadFile(filepath.Join(top, path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = data
	}
	return files[path]
}

// question is what the line asks.
func (l line) question(t testing.TB) Question {
	t.Helper()
	q := Question{
		Checkpoint: l.Checkpoint, MaxCheckpointAge: l.MaxCheckpointAge, Kind: l.Kind, WithoutProof: l.WithoutProof,
	}
	for name, path := range l.Documents {
		data := read(t, path)
		for _, e := range l.Edits {
			if e.Document == name {
				data = slices.Concat(data[:e.At], e.Insert, data[e.At+e.Remove:])
			}
		}
		*map[string]*[]byte{
			"answer": &q.Answer, "keys": &q.Keys, "log": &q.Log, "policy": &q.Policy, "list": &q.List,
			"finality": &q.Finality, "network": &q.Network,
		}[name] = data
	}
	return q
}

const vectorsFolder = "testdata/vectors/"

// vectorNames are all vectors of signed receipts.
func vectorNames(t testing.TB) (names []string) {
	t.Helper()
	folders, err := os.ReadDir(filepath.Join(top, vectorsFolder))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		names = append(names, folder.Name())
	}
	return names
}

func vector(name string) map[string]string {
	return map[string]string{"answer": vectorsFolder + name + "/response.json", "keys": vectorsFolder + name + "/key.json"}
}

// with is documents and one more.
func with(documents map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for name, path := range documents {
		out[name] = path
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// replaced is a line with a text of a document replaced, once.
func (l line) replaced(t testing.TB, document, old, replacement string) line {
	t.Helper()
	at := strings.Index(string(read(t, l.Documents[document])), old)
	if at < 0 {
		t.Fatalf("%s: no %q in %s", l.Name, old, document)
	}
	l.Edits = append(slices.Clone(l.Edits), edit{document, at, len(old), []byte(replacement)})
	l.Name += ", " + document + ": " + old + " to " + replacement
	return l
}

var logged = []string{"log", "receiptlog/testdata/receipt.tlog-proof", "policy", "receiptlog/testdata/policy"}

const blob = "finality/testdata/ethereum-blob/"

// checkpoints are those of the finality documents in blob.
func checkpoints(t testing.TB) (roots map[string]string) {
	t.Helper()
	if err := json.Unmarshal(read(t, blob+"checkpoints.json"), &roots); err != nil {
		t.Fatal(err)
	}
	return roots
}

// final is the receipt whose block a finality document is about.
func final(t testing.TB, name string) line {
	t.Helper()
	return line{
		Name: "final by " + name, Checkpoint: checkpoints(t)[name],
		Documents: with(vector("ethereum-blob"), "finality", blob+name+".json", "network", blob+"network.json"),
	}
}

// lines are the vectors, and what may be wrong with them.
func lines(t testing.TB) (all []line) {
	t.Helper()
	add := func(l line) { all = append(all, l) }
	for _, name := range vectorNames(t) {
		documents, kind, other := vector(name), "transaction", "transfer"
		if strings.HasPrefix(name, "transfer-") {
			kind, other = other, kind
		}
		plain := line{Name: name, Documents: documents, Kind: kind}
		envelope := line{Name: name + " as an envelope", Documents: with(documents, "answer", vectorsFolder+name+"/dsse.json")}
		add(plain)
		add(line{Name: name + " as the other kind", Documents: documents, Kind: other})
		add(envelope)
		envelope.WithoutProof = true
		envelope.Name += ", which may be"
		add(envelope)
		for _, change := range [][3]string{
			{"answer", `"gasUsed":"`, `"gasUsed":"1`},
			{"keys", `"active"`, `"revoked"`},
			{"keys", `"active"`, `"next"`},
			{"answer", `"headerRlp":"0xf9`, `"headerRlp":"0xf8`},
			{"answer", `"index":"`, `"index":"9`},
			{"answer", `"value":"`, `"value":"A`},
			{"answer", `"receipt":{`, `"receipt": {`},
			{"answer", `"receipt":{`, `"receipt":{"a":1,`},
			{"answer", `"proof":{`, `"proof":{"a":1,`},
			{"answer", `"receipt":{`, `"x":null,"receipt":{`},
			{"answer", `"receipt":{`, `"payload":null,"receipt":{`},
			{"answer", `"receipt":{`, `"signatures":null,"receipt":{`},
			{"answer", `"receipt":{`, `"receipt":null,"receipt":{`},
			{"answer", `"version":1`, `"version":1.0`},
			{"answer", `"version":1`, `"version":1e0`},
			{"answer", `"version":1`, `"version":-0`},
			{"answer", `"verdict":"v`, `"verdict":"\u0076`},
			{"answer", `"verdict":"v`, `"verdict":"\ud800v`},
			{"answer", `"verdict":"v`, `"verdict":"\ud83d\ude00v`},
			{"answer", `"verdict":"v`, "\"verdict\":\"\x80v"},
			{"answer", `{"receipt"`, "\xef\xbb\xbf{\"receipt\""},
			{"answer", `"proof":{`, `"proof":null,"b":{`},
			{"answer", `"headerRlp"`, `"HeaderRlp"`},
			{"keys", `"keys"`, `"other":{"deep":[null,1e400,"\u00e9"]},"keys"`},
			{"keys", `"keys"`, `"Keys"`},
			{"keys", `"keys"`, `"payloadTypes":null,"keys"`},
			{"keys", `"status"`, `"validFrom":"2026-01-02T3:04:05,5+24:60","status"`},
			{"keys", `"status"`, `"validFrom":"2026-02-29T03:04:05Z","status"`},
			{"keys", `"status"`, `"validFrom":"2028-02-29T03:04:05Z","status"`},
			{"keys", `"status"`, `"validFrom":"2026-01-02T03:04:60Z","status"`},
			{"keys", `"status"`, `"validUntil":null,"status"`},
			{"keys", `"status"`, `"logged":{"origin":"a","before":"1"},"status"`},
			{"keys", `"chain"`, `"\u0063hain"`},
		} {
			if strings.Contains(string(read(t, documents[change[0]])), change[1]) {
				add(plain.replaced(t, change[0], change[1], change[2]))
			}
		}
	}
	base := line{Name: "base in the log", Documents: with(vector("base"), logged...)}
	add(base)
	add(line{Name: "in the log, without a policy", Documents: with(vector("base"), logged[:2]...)})
	add(line{Name: "a policy without a proof of the log", Documents: with(vector("base"), logged[2:]...)})
	add(line{Name: "another receipt's proof of the log", Documents: with(vector("arbitrum"), logged...)})
	add(line{Name: "hidden generation", Documents: with(vector("base"), "log", "receiptlog/testdata/hidden.tlog-proof", "policy", "receiptlog/testdata/policy-three")})
	add(line{Name: "a policy of three generations", Documents: with(vector("base"), logged[0], logged[1], "policy", "receiptlog/testdata/policy-three")})
	add(line{Name: "interoperability", Documents: with(vector("base"), "log", "receiptlog/testdata/interop/receipt.tlog-proof", "policy", "receiptlog/testdata/interop/policy")})
	add(line{Name: "interoperability, another policy", Documents: with(vector("base"), "log", "receiptlog/testdata/interop/receipt.tlog-proof", "policy", "receiptlog/testdata/policy")})
	for _, change := range [][3]string{
		{"policy", "group two 2", "group two 3"},
		{"policy", "group two 2", "group two any"},
		{"policy", "group two 2", "group two all"},
		{"policy", "quorum two", "quorum none"},
		{"policy", "quorum two", "quorum w0"},
		{"policy", "quorum two", "quorum w1"},
		{"policy", "quorum two", "quorum"},
		{"policy", "log ", "logs "},
		{"policy", "quorum two", "quorum two\r"},
		{"log", "index 7", "index 8"},
		{"log", "index 7", "index 07"},
		{"log", "index 7", "index 300"},
		{"log", "\n300\n", "\n301\n"},
		{"log", "gSkE", "gSkF"},
		{"log", "BQ==\n", "BR==\n"},
		{"log", "BQ==\n", "BQ==\n— x AAAAAAA=\n"},
	} {
		add(base.replaced(t, change[0], change[1], change[2]))
	}
	key := base.replaced(t, "keys", `"status": "active"`, `"status": "revoked", "logged": {"origin": "verifier.example.com/v1/log/1", "before": "8"}`)
	add(key) // no active key is left
	for _, l := range keyStates(t) {
		add(l)
	}
	for _, change := range [][2]string{
		{`"hash": "0x488e`, `"hash": "0x488f`},
		{`"committee": "0x8d`, `"committee": "0x8c`},
		{`"stateRoot": "0x617d`, `"stateRoot": "0x617c`},
		{`"signature": "0xb436`, `"signature": "0xb437`},
		{`"bits": "0xffffffffffff`, `"bits": "0x000000000000`},
		{`"bits": "0xff`, `"bits": "0xfe`},
		{`"keysRoot": "0x01`, `"keysRoot": "0x02`},
		{`"blockHash": "0x75`, `"blockHash": "0x74`},
		{`"0xf893a0b9`, `"0xf893a0b8`},
		{`"slot": "40"`, `"slot": "42"`},
		{`"signatureSlot": "41"`, `"signatureSlot": "40"`},
	} {
		add(final(t, "signed").replaced(t, "finality", change[0], change[1]))
	}
	unknown := final(t, "signed")
	unknown.Name, unknown.Documents = "finality alone", map[string]string{"finality": unknown.Documents["finality"]}
	add(unknown.replaced(t, "finality", `"chain": "eip155:1"`, `"chain": "eip155:8453"`))
	for _, name := range []string{"signed", "pinned"} {
		l := final(t, name)
		add(l)
		l.Name += ", another checkpoint"
		l.Checkpoint = "0x" + strings.Repeat("00", 32)
		add(l)
		l.Checkpoint = ""
		add(l)
		l = final(t, name)
		l.Documents = with(l.Documents, "network", blob+"old-network.json")
		add(l)
		l = final(t, name)
		delete(l.Documents, "network")
		add(l)
		l = final(t, name)
		l.Documents = with(l.Documents, "answer", vectorsFolder+"base/response.json")
		add(l)
		l = final(t, name)
		delete(l.Documents, "finality")
		add(l)
	}
	add(unnumbered(t))
	for _, name := range []string{"capella", "deneb-1250", "deneb-to-electra", "electra-1422", "electra-1600"} {
		path := "finality/testdata/" + name + ".json"
		var d struct {
			Anchor struct{ Checkpoint struct{ Root string } }
		}
		if err := json.Unmarshal(read(t, path), &d); err != nil {
			t.Fatal(err)
		}
		add(line{Name: name, Documents: map[string]string{"finality": path}, Checkpoint: d.Anchor.Checkpoint.Root})
	}
	add(example(t))
	logOnly := example(t)
	logOnly.Name, logOnly.Checkpoint = "example without finality", ""
	delete(logOnly.Documents, "finality")
	delete(logOnly.Documents, "network")
	add(logOnly)
	for i := range all {
		all[i].Verdict = Judge(all[i].question(t))
	}
	return all
}

// keyStates are the first vector by key documents whose active key is another one, alone and in the log.
func keyStates(t testing.TB) (all []line) {
	t.Helper()
	active, err := receipt.NewKeyFromSeed(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	documents := vector("base")
	own, err := receipt.ParseKeyDocument(read(t, documents["keys"]))
	if err != nil {
		t.Fatal(err)
	}
	const origin = "verifier.example.com/v1/log/1"
	for _, c := range []struct {
		status string // "" is not listed
		logged *receipt.Logged
	}{
		{"", nil},
		{receipt.KeyNext, nil},
		{receipt.KeyRetired, nil},
		{receipt.KeyRevoked, nil},
		{receipt.KeyRevoked, &receipt.Logged{Origin: origin, Before: "8"}},
		{receipt.KeyRevoked, &receipt.Logged{Origin: origin, Before: "7"}},
		{receipt.KeyRevoked, &receipt.Logged{Origin: "verifier.example.com/v1/log/2", Before: "8"}},
		{receipt.KeyRevoked, &receipt.Logged{
			Origin: "verifier.example.com/v1/log/2", Before: "1", Earlier: []receipt.Logged{{Origin: origin, Before: "8"}},
		}},
	} {
		name := "base by a key that is not listed"
		var listed []receipt.Key
		if c.status != "" {
			name = "base by a key that is " + c.status
			key := own.Keys[0]
			key.Status, key.Logged = c.status, c.logged
			listed = append(listed, key)
		}
		doc, err := receipt.NewKeyDocument(active, own.Chain, listed...)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if c.logged != nil {
			name += " but for entries of " + c.logged.Origin + " before " + c.logged.Before
		}
		alone := line{Name: name, Documents: documents, Edits: []edit{{"keys", 0, len(read(t, documents["keys"])), text}}}
		inLog := alone
		inLog.Name, inLog.Documents = name+", in the log", with(documents, logged...)
		all = append(all, alone, inLog)
	}
	return all
}

// unnumbered is a receipt that expects one confirmation of the block that a checkpoint pins, and has no proof,
// whose header would show the block's number.
func unnumbered(t testing.TB) line {
	t.Helper()
	l := final(t, "pinned")
	l.Name, l.WithoutProof = l.Name+", without a header", true
	doc, err := receipt.Parse(read(t, l.Documents["answer"]))
	if err != nil {
		t.Fatal(err)
	}
	doc.Receipt.Request.Expectations.MinConfirmations = 1
	key, err := receipt.NewKeyFromSeed(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := receipt.Sign(key, doc.Receipt, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := receipt.NewKeyDocument(key, doc.Receipt.Chain.ID)
	if err != nil {
		t.Fatal(err)
	}
	instead := func(name string, document any) edit {
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		return edit{name, 0, len(read(t, l.Documents[name])), text}
	}
	l.Edits = []edit{instead("answer", signed), instead("keys", keys)}
	return l
}

// The verdicts are a file, so that the packages' own tests need no Go.
func TestVerdicts_AreThoseOfTheFile(t *testing.T) {
	var made strings.Builder
	codes := map[string]bool{}
	for _, l := range lines(t) {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		made.Write(text)
		made.WriteString("\n")
		codes[l.Verdict.Code] = true
	}
	path := filepath.Join(top, "testdata/verdicts.jsonl")
	if *update {
		if err := os.WriteFile(path, []byte(made.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(file), made.String()); diff != "" {
		t.Errorf("%s (-file +judged):\n%s", path, diff)
	}
	for _, code := range []string{Valid, "malformed", "otherKind", "unknownKey", "revokedKey", "unknownLog", "signature", "proof", "noProof", "noPolicy", "noLogProof", "unlisted", "checkpointSignature", "quorum", "inclusion", "noCheckpoint", "noFinality", "otherChain", "otherCheckpoint", "checkpointTooOld", "noNetwork", "otherBlock", "committee", "tooFewSigners", "committeeSignature", "branch", "link"} {
		if !codes[code] {
			t.Errorf("no vector has the verdict %s", code)
		}
	}
	for code := range codes {
		if strings.HasPrefix(code, "unknown:") {
			t.Error(code)
		}
	}
}

// mutated are documents with one byte changed, taken out or put in.
func mutated(t testing.TB, n int, seed uint64) []line {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0)) // the same bytes each time
	bases := []line{
		{Name: "logged", Documents: with(vector("base"), logged...)},
		{Name: "authorization", Documents: vector("transfer-authorization")},
		{Name: "deposit", Documents: vector("optimism-deposit")},
		{Name: "native", Documents: vector("transfer-native")},
		final(t, "signed"), final(t, "pinned"),
	}
	kinds := [][]string{ // of each base, the documents that are changed, and how often
		{"answer", "keys", "log", "log", "log", "log", "policy", "policy"},
		{"answer", "answer", "answer", "keys"},
		{"answer"},
		{"answer"},
		{"finality"},
		{"finality", "network"},
	}
	usual := []byte(`0123456789abcdefABCDEF",:{}[]+/=-. \` + "\n\t")
	out := make([]line, n)
	for i := range out {
		at := random.IntN(len(bases))
		l := bases[at]
		document := kinds[at][random.IntN(len(kinds[at]))]
		data := read(t, l.Documents[document])
		place := random.IntN(len(data))
		e := edit{Document: document, At: place}
		char := usual[random.IntN(len(usual))]
		switch random.IntN(6) {
		case 0:
			e.Remove = 1
		case 1:
			e.Insert = []byte{char}
		case 2:
			e.Remove, e.Insert = 1, []byte{data[place] ^ 1<<random.IntN(8)}
		case 3:
			e.Remove, e.Insert = 1, []byte{byte(random.IntN(256))}
		default:
			e.Remove, e.Insert = 1, []byte{char}
		}
		l.Edits, l.Name = []edit{e}, fmt.Sprintf("%s %d", l.Name, i)
		l.Verdict = Judge(l.question(t))
		out[i] = l
	}
	return out
}

func TestVerdicts_AreTheSameInJavaScript(t *testing.T) {
	needsPackage(t)
	agree(t, *mutations, "node", filepath.Join(top, "npm/test/agree.mjs"))
}

// Deno is from the npm registry, at the version of the lock file. It judges the vectors of the file with
// the module as it is packed, and may read files, and nothing else.
func TestVerdicts_AreTheSameInDeno(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(top, "npm/node_modules/@deno/*/deno"))
	if err != nil || len(found) != 1 {
		missing(t, "what builds the npm package is not installed: make packages")
	}
	deno, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(filepath.Join(top, "npm/test/agree.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), deno, "run", "--no-prompt", "--no-remote", "--allow-read", script).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

func TestVerdicts_AreTheSameInPython(t *testing.T) {
	// A third is about finality, which is not for it.
	agree(t, *mutations*3/2, "python3", filepath.Join(top, "python/tests/agree.py"))
}

func needsPackage(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(top, "npm/dist/esm/index.js")); err != nil {
		missing(t, "the npm package is not built: make packages")
	}
}

// missing skips for a person and fails where everything must be tested.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// agree lets a program judge the vectors and the changed documents.
func agree(t *testing.T, n int, program, script string) {
	t.Helper()
	all, valid := mutated(t, n, *seed), 0
	for _, l := range append(lines(t), all...) {
		if l.Verdict.Code == Valid {
			valid++
		}
	}
	if valid < 20 || valid > len(all)/5 {
		t.Errorf("%d of %d documents hold", valid, len(all))
	}
	agreeWithin(t, 20*time.Minute, append(lines(t), all...), program, script)
}

// agreeWithin lets a program judge lines.
func agreeWithin(t *testing.T, limit time.Duration, all []line, program, script string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, program+" is not installed")
	}
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	for _, l := range all {
		if err := json.NewEncoder(w).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, script, path).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%s: %v", program, err)
	}
}

// The proof beside a receipt is not signed: anyone may put a header of millions of members there.
func TestVerdicts_OnACrowdedHeaderComeSoon(t *testing.T) {
	needsPackage(t)
	const begins, size, more = `"headerRlp":"0x`, 0x1fc, 4_000_000
	l := line{Name: "a crowded header", Documents: vector("base")}
	at := strings.Index(string(read(t, l.Documents["answer"])), begins+fmt.Sprintf("f9%04x", size))
	if at < 0 {
		t.Fatal("the header is another one")
	}
	members := fmt.Sprintf("fa%06x", more+size) + strings.Repeat("01", more)
	l.Edits = []edit{{"answer", at + len(begins), len("f90000"), []byte(members)}}
	l.Verdict = Judge(l.question(t))
	for _, judge := range [][2]string{JavaScript, Python} {
		agreeWithin(t, time.Minute, []line{l}, judge[0], filepath.Join(top, judge[1]))
	}
}
