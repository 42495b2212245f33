package ethrpc

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/pforte/pforte/services/verifier/internal/chain"
)

// bombs are answers that are short as text and large once they are read.
var bombs = map[string]struct {
	before, item, after string
	into                any
}{
	"transactions":            {`{"transactions":[`, `{}`, `]}`, new(rpcBlock)},
	"transactions of nothing": {`{"transactions":[`, `null`, `]}`, new(rpcBlock)},
	"padded transactions":     {`{"transactions":[`, padded[rpcTransaction](), `]}`, new(rpcBlock)},
	"receipts":                {`[`, `{}`, `]`, new(array[rpcReceipt])},
	"padded receipts":         {`[`, padded[rpcReceipt](), `]`, new(array[rpcReceipt])},
	"logs":                    {`[{"logs":[`, `{}`, `]}]`, new(array[rpcReceipt])},
	"padded logs":             {`[{"logs":[`, padded[rpcLog](), `]}]`, new(array[rpcReceipt])},
	"topics":                  {`[{"logs":[{"topics":[`, `null`, `]}]}]`, new(array[rpcReceipt])},
	"access lists":            {`{"accessList":[`, `{}`, `]}`, new(rpcTransaction)},
	"storage keys":            {`{"accessList":[{"storageKeys":[`, `null`, `]}]}`, new(rpcTransaction)},
	"authorizations":          {`{"authorizationList":[`, `{}`, `]}`, new(rpcTransaction)},
	"blobs":                   {`{"blobVersionedHashes":[`, `null`, `]}`, new(rpcTransaction)},
}

// padded is an element that is just long enough.
func padded[T any]() string {
	var element T
	return "{" + strings.Repeat(" ", int(unsafe.Sizeof(element)/2)) + "}"
}

// TestAnAnswerTakesNoMoreMemoryThanAFewTimesItsText: the text is what the budget
// counts.
func TestAnAnswerTakesNoMoreMemoryThanAFewTimesItsText(t *testing.T) {
	const size = 2 << 20
	for name, bomb := range bombs {
		items := strings.Repeat(bomb.item+",", size/(len(bomb.item)+1))
		text := []byte(bomb.before + items + bomb.item + bomb.after)
		var err error
		took := allocated(func() {
			_, err = (&call{done: true, result: text}).into(bomb.into)
		})
		t.Logf("%s: %d MiB of text took %d MiB", name, len(text)>>20, took>>20)
		if err != nil && !isAny(err, chain.ErrUnavailable) || took > 16*size { // growing arrays leaves garbage
			t.Errorf("%s: took %d MiB: %v", name, took>>20, err)
		}
	}
}

func TestABatchOfTooManyAnswersIsGarbage(t *testing.T) {
	body := []byte("[" + strings.Repeat("{},", 1<<20) + "{}]")
	var err error
	if took := allocated(func() { _, _, err = decodeReplies(body) }); err == nil || took > 1<<20 {
		t.Errorf("took %d MiB: %v", took>>20, err)
	}
}

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
