package agent_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/x402"
)

// recordedQuestion is the question that the recorded answer answers.
const recordedQuestion = `{"transactionHash":"0xCAEFBD4EF9F6E3E4024EF4C30926B884884CBCCD5293FC534D88C4A8CB2235FB","expectations":{"minConfirmations":12,"status":"success",` +
	`"from":"0xf9868b3960348194371b8ca4fe87ca7de95e40b6","to":"0xc7b006f084ca79334db41fe216d3195870fac026","selector":"0x18cbafe5"}}`

func fileOf(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "questions.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// openBatch is a seller of the recorded answer, twice.
func openBatch(t *testing.T, amount string) *seller {
	t.Helper()
	single := read(t, "response.json")
	s := open(t, func(w http.ResponseWriter) { _, _ = w.Write(receipt.JoinAnswers([][]byte{single, single})) })
	s.offers[0].Amount = amount
	return s
}

func TestBatch_IsBoughtForOnePaymentAndEachAnswerChecked(t *testing.T) {
	named := `{"chain":"base",` + recordedQuestion[1:]
	for _, flag := range []string{"", "--json"} {
		s := openBatch(t, "20000")
		state := t.TempDir()
		args := []string{"--batch", fileOf(t, `{"questions":[`+named+`,`+recordedQuestion+`]}`), "--out", filepath.Join(state, "saved")}
		if flag != "" {
			args = append(args, flag)
		}
		got := s.runWith(state, args...)
		if got.code != 0 || kept(t, state) != 0 || len(s.sent()) != 1 {
			t.Fatalf("%+v", got)
		}
		want := `POST /v1/verify/batch {"questions":[{"chain":"base","transactionHash":"` + txHash
		if asked := s.questions(); !strings.HasPrefix(asked[0], want) || asked[0] != asked[1] {
			t.Errorf("asked %s", asked)
		}
		var p x402.Payload
		if err := x402.Decode(s.sent()[0], &p); err != nil || p.Payload.Authorization.Value != "20000" {
			t.Errorf("%+v %v", p, err)
		}
		saved, err := os.ReadFile(filepath.Join(state, "saved"))
		if answers, splitErr := receipt.SplitAnswers(saved); err != nil || splitErr != nil || len(answers) != 2 {
			t.Errorf("%v %v", err, splitErr)
		}
		if flag == "" {
			if !strings.Contains(got.stdout, "proofs of all 2 hold. Paid 0.02 USD") {
				t.Errorf("%s", got.stdout)
			}
			continue
		}
		var told struct {
			Verified bool
			Answers  []struct{ Transaction string }
			Payment  struct{ USD string }
		}
		if err := json.Unmarshal([]byte(got.stdout), &told); err != nil || !told.Verified || len(told.Answers) != 2 || told.Answers[1].Transaction != txHash || told.Payment.USD != "0.02" {
			t.Errorf("%+v %v", told, err)
		}
	}
}

func TestBatch_IsNotPaidForOverItsPriceOrEarly(t *testing.T) {
	two := `{"questions":[{"chain":"base",` + recordedQuestion[1:] + `,` + recordedQuestion + `]}`
	s := openBatch(t, "100001") // 0.05 USD for each
	if got := s.runWith(t.TempDir(), "--batch", fileOf(t, two)); got.code != 1 || len(s.sent()) != 0 {
		t.Errorf("%+v", got)
	}
	s = openBatch(t, "20000")
	s.reports("chain", `{"status":"included","block":"7","finalInSeconds":900}`)
	s.reports("base", `{"status":"final"}`)
	if got := s.runWith(t.TempDir(), "--batch", fileOf(t, two)); got.code != 1 || len(s.questions()) != 0 || !strings.Contains(got.stderr, "final in about 900 s") {
		t.Errorf("%+v", got)
	}
	for name, text := range map[string]string{
		"empty": `{"questions":[]}`, "no list": `[]`, "unknown": `{"questions":[{"transactionHash":"` + txHash + `","x":1}]}`,
		"no chain": `{"questions":[{"chain":7,"transactionHash":"` + txHash + `"}]}`, "no transaction": `{"questions":[{}]}`,
	} {
		if got := s.runWith(t.TempDir(), "--batch", fileOf(t, text)); got.code != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := s.runWith(t.TempDir(), "--batch", fileOf(t, two), "--tx", txHash); got.code != 2 {
		t.Errorf("%+v", got)
	}
}

func TestBatch_APaymentThatMayBeSettledIsSentAgainWhateverIsFinal(t *testing.T) {
	s, state := openBatch(t, "10000"), t.TempDir()
	s.script(hangUp)
	batch := fileOf(t, `{"questions":[`+recordedQuestion+`]}`)
	if got := s.runWith(state, "--batch", batch); got.code != 3 || kept(t, state) != 1 {
		t.Fatalf("%+v", got)
	}
	s.reports("chain", `{"status":"pending"}`)
	if got := s.runWith(state, "--batch", batch); got.code != 3 || strings.Contains(got.stderr, "nothing was signed") {
		t.Errorf("%+v", got)
	}
	s.wantOnePayment()
}

func TestBatch_AnswersToOtherQuestionsDoNotHold(t *testing.T) {
	for name, questions := range map[string]string{
		"fewer": recordedQuestion,
		"other": recordedQuestion + `,{"transactionHash":"` + txHash + `"}`,
		"chain": recordedQuestion + `,{"chain":"ethereum",` + recordedQuestion[1:],
	} {
		s := openBatch(t, "10000")
		state := t.TempDir()
		if got := s.runWith(state, "--batch", fileOf(t, `{"questions":[`+questions+`]}`)); got.code != 4 || kept(t, state) != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
