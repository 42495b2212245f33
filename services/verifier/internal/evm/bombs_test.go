package evm

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// bombs are answers that are short as text and large once they are read.
var bombs = map[string]struct {
	before, item, after string
	into                any
}{
	"transactions":            {`{"transactions":[`, `{}`, `]}`, new(Block)},
	"transactions of nothing": {`{"transactions":[`, `null`, `]}`, new(Block)},
	"padded transactions":     {`{"transactions":[`, padded[Transaction](), `]}`, new(Block)},
	"receipts":                {`[`, `{}`, `]`, new(list[Receipt])},
	"padded receipts":         {`[`, padded[Receipt](), `]`, new(list[Receipt])},
	"logs":                    {`[{"logs":[`, `{}`, `]}]`, new(list[Receipt])},
	"padded logs":             {`[{"logs":[`, padded[logEntry](), `]}]`, new(list[Receipt])},
	"topics":                  {`[{"logs":[{"topics":[`, `null`, `]}]}]`, new(list[Receipt])},
	"access lists":            {`{"accessList":[`, `{}`, `]}`, new(Transaction)},
	"storage keys":            {`{"accessList":[{"storageKeys":[`, `null`, `]}]}`, new(Transaction)},
	"authorizations":          {`{"authorizationList":[`, `{}`, `]}`, new(Transaction)},
	"blobs":                   {`{"blobVersionedHashes":[`, `null`, `]}`, new(Transaction)},
}

// padded is an element that is just long enough.
func padded[T any]() string {
	var element T
	return "{" + strings.Repeat(" ", int(unsafe.Sizeof(element)/2)) + "}"
}

// TestDecode_TakesAFewTimesTheMemoryOfItsText: the text is what the budget
// counts.
func TestDecode_TakesAFewTimesTheMemoryOfItsText(t *testing.T) {
	const size = 2 << 20
	for name, bomb := range bombs {
		items := strings.Repeat(bomb.item+",", size/(len(bomb.item)+1))
		text := []byte(bomb.before + items + bomb.item + bomb.after)
		var err error
		took := allocated(func() {
			err = Decode(text, bomb.into)
		})
		t.Logf("%s: %d MiB of text took %d MiB", name, len(text)>>20, took>>20)
		if took > 16*size { // growing arrays leaves garbage
			t.Errorf("%s: took %d MiB: %v", name, took>>20, err)
		}
	}
}

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
