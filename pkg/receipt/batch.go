package receipt

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

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
// could read differently (package strictjson; a member that is named answers but for the case), or in which answers
// is no list or is empty.
func SplitAnswers(text []byte) ([][]byte, error) {
	inside, _ := bytes.CutPrefix(bytes.TrimSpace(text), []byte("{"))
	if !bytes.HasPrefix(bytes.TrimSpace(inside), []byte(`"answers"`)) {
		return [][]byte{text}, nil
	}
	var batch map[string]json.RawMessage
	if err := strictjson.Unmarshal(text, &batch, strictjson.Rules{AllowNull: true}); err != nil {
		return nil, malformed("a batch: %v", err)
	}
	const member = "answers"
	for name := range batch {
		if name != member && strings.EqualFold(name, member) { // encoding/json takes it for the same
			return nil, malformed("a batch has %q beside %q", name, member)
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(batch[member], &list); err != nil || len(list) == 0 {
		return nil, malformed("a batch has no answers")
	}
	answers := make([][]byte, len(list))
	for i, answer := range list {
		answers[i] = answer
	}
	return answers, nil
}
