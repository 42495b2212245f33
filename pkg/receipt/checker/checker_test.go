package checker_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/checker"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// go test ./checker -run TestGolden -update
var update = flag.Bool("update", false, "write the golden files anew")

const (
	vectors = "../testdata/vectors/"
	logs    = "../receiptlog/testdata/"
	origin  = "verifier.example.com/v1/log/1"
	// checkpoint is that of the recorded chain in ../finality/testdata/electra-1422.json.
	checkpoint = "0xb8758d4bd976e1b33e62937ed31a709dba0a855869641581bef3d2a48b527690"
)

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// signingKey is the key of the vectors: RFC 8032 section 7.1, test 1.
func signingKey(t testing.TB) *receipt.SigningKey {
	t.Helper()
	seed, err := hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	if err != nil {
		t.Fatal(err)
	}
	key, err := receipt.NewKeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// revoked is a key document that lists the vectors' key as revoked, and the cut-off.
func revoked(t testing.TB, before string) string {
	t.Helper()
	old, err := receipt.ParseKeyDocument([]byte(read(t, vectors+"base/key.json")))
	if err != nil {
		t.Fatal(err)
	}
	key := old.Keys[0]
	key.Status = receipt.KeyRevoked
	if before != "" {
		key.Logged = &receipt.Logged{Origin: origin, Before: before}
	}
	active, err := receipt.NewKeyFromSeed(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := receipt.NewKeyDocument(active, old.Chain, key)
	if err != nil {
		t.Fatal(err)
	}
	return encode(t, doc)
}

func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// about returns a receipt without a proof about a block of Ethereum.
func about(t testing.TB, number, hash string) string {
	t.Helper()
	doc, err := receipt.Parse([]byte(read(t, vectors+"ethereum-blob/response.json")))
	if err != nil {
		t.Fatal(err)
	}
	r := doc.Receipt
	r.Block.Number, r.Block.Hash = number, hash
	answer, err := receipt.Sign(signingKey(t), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := answer.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cases are sets of texts with what is expected of them: verdict, and the states and
// reasons of signature, proof, log and finality.
func cases(t testing.TB) map[string]struct {
	texts []string
	want  string
} {
	answer, key := read(t, vectors+"base/response.json"), read(t, vectors+"base/key.json")
	proof, policy := read(t, logs+"receipt.tlog-proof"), read(t, logs+"policy")
	hidden, three := read(t, logs+"hidden.tlog-proof"), read(t, logs+"policy-three")
	final := read(t, "../finality/testdata/electra-1422.json")
	onMainnet := about(t, "22432991", "0xd4c1a04e15667a6a012075daee220cf04a052a3491632572bfb0e5d90736b4cb")
	unwitnessed := strings.SplitAfter(proof, "\n")
	unwitnessed = unwitnessed[:len(unwitnessed)-3] // without the lines of the witnesses
	node := fmt.Sprintf(`{"data":{"root":%q,"canonical":true},"finalized":true}`, checkpoint)
	directory := encode(t, map[string]any{
		"logs":       []any{map[string]string{"origin": origin, "key": strings.Fields(policy)[1], "prefix": "/v1/log/1", "from": "2026-11-22T00:00:00Z"}},
		"mergeDelay": 60, "policy": policy,
	})
	return map[string]struct {
		texts []string
		want  string
	}{
		"nothing":                  {nil, "noReceipt absent absent absent absent"},
		"not a receipt":            {[]string{"hello", `{"receipt":1}`, "<script>alert(1)</script>"}, "noReceipt absent absent absent absent"},
		"no key":                   {[]string{answer}, "undecided unchecked/noKey holds absent absent"},
		"valid":                    {[]string{answer, key}, "valid holds holds absent absent"},
		"an envelope":              {[]string{key, read(t, vectors+"base/dsse.json")}, "valid holds absent absent absent"},
		"a transfer":               {[]string{read(t, vectors+"transfer-usdc/response.json"), key}, "valid holds holds absent absent"},
		"logged":                   {[]string{policy, proof, key, answer}, "valid holds holds holds absent"},
		"logged, operator's":       {[]string{answer, key, proof, directory}, "valid holds holds holds absent"},
		"own policy first":         {[]string{answer, key, proof, policy, directory}, "valid holds holds holds absent"},
		"hidden generation":        {[]string{answer, key, hidden, three}, "notValid holds holds fails/unlisted absent"},
		"hidden, list":             {[]string{answer, key, hidden, three, directory}, "notValid holds holds fails/unlisted absent"},
		"hidden, operator's":       {[]string{answer, key, hidden, strings.Replace(directory, encode(t, policy), encode(t, three), 1)}, "notValid holds holds fails/unlisted absent"},
		"a list that is none":      {[]string{answer, key, proof, policy, strings.Replace(directory, `"mergeDelay":60`, `"mergeDelay":-1`, 1)}, "notValid holds holds fails/unlisted absent"},
		"several generations":      {[]string{answer, key, proof, three}, "notValid holds holds fails/unlisted absent"},
		"several, list":            {[]string{answer, key, proof, three, directory}, "valid holds holds holds absent"},
		"no policy":                {[]string{answer, key, proof}, "valid holds holds unchecked/noPolicy absent"},
		"unwitnessed":              {[]string{answer, key, strings.Join(unwitnessed, ""), strings.Replace(policy, "quorum two", "quorum none", 1)}, "valid holds holds holds absent"},
		"too few witnesses":        {[]string{answer, key, proof, strings.Replace(policy, "two 2", "two 3", 1)}, "notValid holds holds fails/quorum absent"},
		"another log":              {[]string{answer, key, proof, "quorum none\n"}, "notValid holds holds fails/unknownLog absent"},
		"another receipt's proof":  {[]string{read(t, vectors+"arbitrum/response.json"), key, proof, policy}, "notValid holds holds fails/inclusion absent"},
		"a broken log proof":       {[]string{answer, key, proof[:60], policy}, "notValid holds holds fails/malformed absent"},
		"tampered":                 {[]string{strings.Replace(answer, `"number":"2000000"`, `"number":"2000001"`, 1), key}, "notValid fails/signature fails/proof absent absent"},
		"tampered proof":           {[]string{strings.Replace(answer, `"headerRlp":"0xf9`, `"headerRlp":"0xf8`, 1), key}, "notValid holds fails/proof absent absent"},
		"another's key":            {[]string{answer, revoked(t, ""), encode(t, otherKeys(t))}, "notValid fails/unknownKey holds absent absent"},
		"revoked":                  {[]string{answer, revoked(t, "")}, "notValid fails/revokedKey holds absent absent"},
		"revoked, logged":          {[]string{answer, revoked(t, ""), proof, policy}, "notValid fails/revokedKey holds holds absent"},
		"revoked later, logged":    {[]string{answer, revoked(t, "8"), proof, policy}, "valid holds holds holds absent"},
		"revoked later, no proof":  {[]string{answer, revoked(t, "8")}, "notValid fails/revokedKey holds absent absent"},
		"revoked before, logged":   {[]string{answer, revoked(t, "7"), proof, policy}, "notValid fails/revokedKey holds holds absent"},
		"final":                    {[]string{onMainnet, key, final, checkpoint}, "valid holds absent absent holds"},
		"final, a node's answer":   {[]string{onMainnet, key, final, node}, "valid holds absent absent holds"},
		"final, unsigned":          {[]string{onMainnet, final, checkpoint}, "undecided unchecked/noKey absent absent holds"},
		"no checkpoint":            {[]string{onMainnet, key, final}, "valid holds absent absent unchecked/noCheckpoint"},
		"another checkpoint":       {[]string{onMainnet, key, final, "0x" + strings.Repeat("00", 32)}, "notValid holds absent absent fails/otherCheckpoint"},
		"another block":            {[]string{about(t, "22432992", "0xd4c1a04e15667a6a012075daee220cf04a052a3491632572bfb0e5d90736b4cb"), key, final, checkpoint}, "notValid holds absent absent fails/otherBlock"},
		"another chain":            {[]string{answer, key, final, checkpoint}, "notValid holds holds absent fails/otherChain"},
		"a changed finality proof": {[]string{onMainnet, key, strings.Replace(final, `"signatureSlot":"1`, `"signatureSlot":"2`, 1), checkpoint}, "notValid holds absent absent fails/other"},
		"a broken finality proof":  {[]string{onMainnet, key, strings.Replace(final, `"version":1`, `"version":2`, 1), checkpoint}, "notValid holds absent absent fails/malformed"},
	}
}

func otherKeys(t testing.TB) receipt.KeyDocument {
	t.Helper()
	active, err := receipt.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := receipt.NewKeyDocument(active, "eip155:1")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func summary(r checker.Report) string {
	text := r.Verdict
	for _, p := range []checker.Part{r.Signature.Part, r.Proof, r.Log.Part, r.Finality.Part} {
		text += " " + string(p.State)
		if p.Reason != "" {
			text += "/" + p.Reason
		}
	}
	return text
}

// withoutSentences returns a report without the words of other packages, and without the
// receipt itself.
func withoutSentences(r checker.Report) checker.Report {
	r.Receipt = nil
	for _, p := range []*checker.Part{&r.Signature.Part, &r.Proof, &r.Log.Part, &r.Finality.Part} {
		p.Error = ""
	}
	for i := range r.Texts {
		if r.Texts[i].Error != "" {
			r.Texts[i].Error = "unreadable"
		}
	}
	results := [][]receipt.Fact{r.Proven, r.Attested}
	if r.Finality.Result != nil {
		results = append(results, r.Finality.Result.Proven)
	}
	for _, facts := range results {
		for i := range facts {
			facts[i].How = ""
		}
	}
	return r
}

func TestGolden_Reports(t *testing.T) {
	for name, c := range cases(t) {
		report := checker.Check(c.texts)
		if got := summary(report); got != c.want {
			t.Errorf("%s: %s, want %s\n%s", name, got, c.want, encode(t, report))
		}
		text, err := json.MarshalIndent(withoutSentences(report), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", strings.NewReplacer(", ", "-", " ", "-", "'", "").Replace(name)+".json")
		if *update {
			if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want := read(t, file); want != string(text)+"\n" {
			t.Errorf("%s differs from %s:\n%s", name, file, text)
		}
	}
}

func TestCheck_AFactIsProvenOrAttested(t *testing.T) {
	for name, c := range cases(t) {
		report, seen := checker.Check(c.texts), map[string]bool{}
		for _, fact := range append(report.Proven, report.Attested...) {
			if seen[fact.Field] {
				t.Errorf("%s: %s is listed twice", name, fact.Field)
			}
			seen[fact.Field] = true
		}
		if report.Receipt != nil && !seen["finality.tag"] {
			t.Errorf("%s: finality is neither", name)
		}
	}
}

func TestCheck_TheLaterOfTwoTextsCounts(t *testing.T) {
	base, arbitrum := read(t, vectors+"base/response.json"), read(t, vectors+"arbitrum/response.json")
	for _, texts := range [][]string{{base, arbitrum}, {arbitrum, base}} {
		report := checker.Check(texts)
		if report.Texts[0].Used || !report.Texts[1].Used || report.Receipt == nil || !strings.Contains(texts[1], report.Receipt.Transaction.Hash) {
			t.Errorf("%+v", report.Texts)
		}
	}
}

// A file among the others must not weaken what is known: with shorter slots a checkpoint of
// years ago would be young.
func TestCheck_AFileReplacesNoKnownNetwork(t *testing.T) {
	mainnet := finality.Mainnet()
	mainnet.SecondsPerSlot = 1
	texts := []string{
		about(t, "22432991", "0xd4c1a04e15667a6a012075daee220cf04a052a3491632572bfb0e5d90736b4cb"),
		read(t, "../finality/testdata/electra-1422.json"), checkpoint,
	}
	want, got := checker.Check(texts), checker.Check(append(texts, encode(t, mainnet)))
	if diff := cmp.Diff(encode(t, want.Finality), encode(t, got.Finality)); diff != "" {
		t.Errorf("-without +with the file:\n%s", diff)
	}
	if file := got.Texts[len(texts)]; file.Kind != checker.KindNetwork || file.Used {
		t.Errorf("%+v", file)
	}
}

func TestPolicy_ThatCannotBeReadIsNotReplaced(t *testing.T) {
	texts := cases(t)["logged, operator's"].texts
	for _, policy := range []int{0, len(texts)} {
		report := checker.Check(slices.Insert(slices.Clone(texts), policy, "log nonsense\n"))
		if got := summary(report); got != "valid holds holds unchecked/noPolicy absent" {
			t.Errorf("at %d: %s", policy, got)
		}
	}
}

// The policy accepts the log's checkpoint: it is the list that has another key.
func TestLog_ListedWithAnotherKeyIsNotListed(t *testing.T) {
	other, err := receiptlog.NewLogKey(origin, signingKey(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	texts := slices.Clone(cases(t)["own policy first"].texts)
	list := &texts[len(texts)-1]
	*list = strings.Replace(*list, strings.Fields(texts[3])[1], other.String(), 1)
	if got := summary(checker.Check(texts)); got != "notValid holds holds fails/unlisted absent" {
		t.Error(got)
	}
}

func TestCheckpoint_IsReadInOneWay(t *testing.T) {
	final := cases(t)["final"].texts[:3]
	for _, text := range []string{
		fmt.Sprintf(`{"data":{"root":"0x%064d","root":%q}}`, 1, checkpoint), fmt.Sprintf(`{"data":{"ROOT":%q,"root":"0x%064d"}}`, checkpoint, 1),
		fmt.Sprintf(`{"data":{"root":"0x%064d"},"Data":{"root":%q}}`, 1, checkpoint),
	} {
		if report := checker.Check(append(slices.Clone(final), text)); report.Finality.State == checker.Holds {
			t.Errorf("%s: %+v", text, report.Finality)
		}
	}
}

func TestCheckpoint_IsNotABlockThatIsNotFinal(t *testing.T) {
	texts := slices.Clone(cases(t)["final, a node's answer"].texts)
	node := &texts[len(texts)-1]
	*node = strings.Replace(*node, `"finalized":true`, `"finalized":false`, 1)
	report := checker.Check(texts)
	if got := summary(report); got != "valid holds absent absent unchecked/noCheckpoint" || report.Texts[len(texts)-1].Error == "" {
		t.Errorf("%s: %+v", got, report.Texts)
	}
}

func TestFinality_OfAnUnknownNetworkIsNotJudged(t *testing.T) {
	doc, err := receipt.Parse([]byte(cases(t)["final"].texts[0]))
	if err != nil {
		t.Fatal(err)
	}
	doc.Receipt.Chain.ID = "eip155:1337"
	answer, err := receipt.Sign(signingKey(t), doc.Receipt, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := answer.JSON()
	if err != nil {
		t.Fatal(err)
	}
	final := strings.Replace(read(t, "../finality/testdata/electra-1422.json"), `"eip155:1"`, `"eip155:1337"`, 1)
	texts := []string{string(signed), read(t, vectors+"base/key.json"), final, checkpoint}
	if got := summary(checker.Check(texts)); got != "valid holds absent absent unchecked/noNetwork" {
		t.Error(got)
	}
	network := finality.Mainnet()
	network.ChainID, network.Forks[0].Version = "eip155:1337", finality.ForkVersion{9}
	if got := summary(checker.Check(append(texts, encode(t, network)))); got != "valid holds absent absent holds" {
		t.Errorf("with the network: %s", got)
	}
}

func TestCheck_TooManyTextsAreNotRead(t *testing.T) {
	texts := make([]string, checker.MaxTexts+1)
	texts[checker.MaxTexts] = read(t, vectors+"base/response.json")
	report := checker.Check(texts)
	if report.Verdict != checker.NoReceipt || report.Texts[checker.MaxTexts].Error == "" {
		t.Errorf("%s, %+v", report.Verdict, report.Texts[checker.MaxTexts])
	}
}

func FuzzCheckNeverPanics(f *testing.F) {
	for _, c := range cases(f) {
		texts := slices.Concat(c.texts, make([]string, 4))
		f.Add(texts[0], texts[1], texts[2], texts[3])
	}
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		report := checker.Check([]string{a, b, c, d})
		if _, err := json.Marshal(report); err != nil {
			t.Error(err)
		}
		if report.Verdict == checker.Valid && (report.Signature.State != checker.Holds || report.Signature.Key == nil) {
			t.Errorf("valid without a signature: %+v", report)
		}
	})
}
