package receipt_test

import (
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

func BenchmarkSign(b *testing.B) {
	v, key := readVectors(b)[0], testKey(b)
	doc, err := receipt.Parse(v.files["response.json"])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := receipt.Sign(key, doc.Receipt, doc.Proof); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, v := range readVectors(b) {
		b.Run(v.folder, func(b *testing.B) {
			text := v.files["response.json"]
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := receipt.Verify(text, v.keys); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerifyProof(b *testing.B) {
	doc, err := receipt.Parse(readVectors(b)[0].files["response.json"])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := receipt.VerifyProof(doc.Receipt, *doc.Proof); err != nil {
			b.Fatal(err)
		}
	}
}
