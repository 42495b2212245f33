package receipt

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/pforte/pforte/pkg/receipt/strictjson"
)

// JoinAnswers returns the answer to a batch of questions, {"answers":[...]}, with answers in
// their order and unchanged. Each is the answer to one question as [Response.JSON] returns it.
func JoinAnswers(answers [][]byte) []byte {
	return slices.Concat([]byte(`{"answers":[`), bytes.Join(answers, []byte(",")), []byte("]}"))
}

// SplitAnswers returns the answers in the answer to a batch, in the order of the questions; it verifies
// none of them. A text whose first member is named answers is read as a batch; any other is returned as
// the only answer. Other members are ignored. ErrMalformed for a batch that is not JSON, that two programs
// could read differently (package strictjson), or in which answers is no list or is empty.
func SplitAnswers(text []byte) ([][]byte, error) {
	inside, _ := bytes.CutPrefix(bytes.TrimSpace(text), []byte("{"))
	if !bytes.HasPrefix(bytes.TrimSpace(inside), []byte(`"answers"`)) {
		return [][]byte{text}, nil
	}
	var batch struct {
		Answers []json.RawMessage `json:"answers"`
	}
	if err := strictjson.Unmarshal(text, &batch, strictjson.Rules{AllowUnknown: true, AllowNull: true}); err != nil {
		return nil, malformed("a batch: %v", err)
	}
	if len(batch.Answers) == 0 {
		return nil, malformed("a batch has no answers")
	}
	answers := make([][]byte, len(batch.Answers))
	for i, answer := range batch.Answers {
		answers[i] = answer
	}
	return answers, nil
}
