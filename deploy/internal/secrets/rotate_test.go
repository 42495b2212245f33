package secrets_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/receipt"
)

func made(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := secrets.Make(folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

func content(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRotateSession_KeepsThePresentAsThePrevious(t *testing.T) {
	folder := made(t)
	seen := map[string]bool{content(t, folder, "session-secret-previous"): true}
	for range 3 {
		present := content(t, folder, "session-secret")
		if seen[present] || len(present) < 32 {
			t.Errorf("the secret %d characters long was there before: %v", len(present), seen[present])
		}
		seen[present] = true
		if err := secrets.RotateSession(folder); err != nil {
			t.Fatal(err)
		}
		if content(t, folder, "session-secret-previous") != present {
			t.Error("the previous secret is not the one that was present")
		}
	}
	if err := secrets.RotateSession(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a secret: %v", err)
	}
}

// document is what the verifier would publish.
func document(t *testing.T, folder string) receipt.KeyDocument {
	t.Helper()
	key, err := receipt.ParseSigningKey([]byte(content(t, folder, "receipt-key.pem")))
	if err != nil {
		t.Fatal(err)
	}
	others, err := receipt.ParseKeys([]byte(content(t, folder, "retired-keys.json")))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := receipt.NewKeyDocument(key, "eip155:84532", others...)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestRotateReceiptKey_PublishesBeforeItSignsAndForEver(t *testing.T) {
	folder := made(t)
	if err := secrets.RotateReceiptKey(folder); !errors.Is(err, secrets.ErrNotAnnounced) {
		t.Errorf("without a word: %v", err)
	}
	var signed []string // newest first
	for range 3 {
		before := document(t, folder)
		signed = append([]string{before.KeyID}, signed...)
		for range 2 { // again does nothing
			if err := secrets.AnnounceReceiptKey(folder); err != nil {
				t.Fatal(err)
			}
		}
		announced := document(t, folder)
		next := announced.Keys[len(announced.Keys)-1]
		if announced.KeyID != before.KeyID || next.Status != receipt.KeyNext {
			t.Fatalf("announced: %+v", announced)
		}
		if err := secrets.RotateReceiptKey(folder); err != nil {
			t.Fatal(err)
		}
		after := document(t, folder)
		if after.KeyID != next.KeyID || after.Keys[0].Status != receipt.KeyActive {
			t.Fatalf("%s signs, and %s was announced", after.KeyID, next.KeyID)
		}
		retired := map[string]string{}
		for _, key := range after.Keys[1:] {
			retired[key.KeyID] = key.Status
		}
		want := map[string]string{}
		for _, id := range signed {
			want[id] = receipt.KeyRetired
		}
		if diff := cmp.Diff(want, retired); diff != "" {
			t.Errorf("differs (-want +got):\n%s", diff)
		}
	}
}

// TestRotate_IsRightWhereItIsCutShort stops between the two writes of it.
func TestRotate_IsRightWhereItIsCutShort(t *testing.T) {
	folder := made(t)
	if err := secrets.AnnounceReceiptKey(folder); err != nil {
		t.Fatal(err)
	}
	present := content(t, folder, "receipt-key.pem")
	before := document(t, folder)
	if err := secrets.RotateReceiptKey(folder); err != nil {
		t.Fatal(err)
	}
	// The list is new and the key is old, as when the second step did not happen.
	if err := os.WriteFile(filepath.Join(folder, "receipt-key.pem"), []byte(present), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Keys, document(t, folder).Keys); diff != "" {
		t.Errorf("differs (-before +after):\n%s", diff)
	}
}
