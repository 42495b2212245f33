package payment_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnswer_IsMadeByTheLedgerOnly(t *testing.T) {
	top := "../.."
	uses := 0
	err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "payment.Queued") {
			return err
		}
		if uses++; filepath.Dir(path) != filepath.Join(top, "internal/payment/ledger") {
			t.Errorf("%s makes an answer", path)
		}
		return nil
	})
	if err != nil || uses == 0 {
		t.Errorf("%d files make answers, %v", uses, err)
	}
}
