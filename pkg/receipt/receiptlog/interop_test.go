package receiptlog_test

import (
	"testing"

	"github.com/pforte/pforte/pkg/receipt/receiptlog"
)

// testdata/interop was made by github.com/transparency-dev/formats v0.1.1 (note, log,
// proof): a log of 1000 entries, of which number 123 is testdata/receipt.entry, with
// two Ed25519 cosignatures and one of ML-DSA-44.
func TestInterop_AnotherImplementationsProofVerifies(t *testing.T) {
	p := must[receiptlog.Policy](t)(receiptlog.ParsePolicy(readFile(t, "testdata/interop/policy")))
	got, err := receiptlog.Verify(document(t, "base", "response.json"), keyDocument(t), readFile(t, "testdata/interop/receipt.tlog-proof"), p)
	if err != nil {
		t.Fatal(err)
	}
	if got.Index != 123 || got.Size != 1000 || got.Origin != "log.example.org/interop" || len(got.Cosignatures) != 2 {
		t.Errorf("%+v", got)
	}
}

// The key of Go's checksum database, whose base64 has a plus.
func TestInterop_AnotherLogsKeyIsRead(t *testing.T) {
	const sumdb = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
	if k, err := receiptlog.ParseLogKey(sumdb); err != nil || k.String() != sumdb || k.Name() != "sum.golang.org" {
		t.Errorf("%v, %v", k, err)
	}
}
