package receipt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/pforte/pforte/pkg/receipt"
)

func revokedKey(t testing.TB, status string, logged *receipt.Logged) []byte {
	key := readVectors(t)[0].keys.Keys[0]
	key.Status, key.Logged = status, logged
	return mustMarshal(t, []receipt.Key{key})
}

func TestCutOff_IsReadAndListed(t *testing.T) {
	want := receipt.Logged{Origin: "verifier.example.com/v1/log/1", Before: "12000"}
	keys, err := receipt.ParseKeys(revokedKey(t, receipt.KeyRevoked, &want))
	if err != nil || len(keys) != 1 || keys[0].Logged == nil || !reflect.DeepEqual(*keys[0].Logged, want) {
		t.Fatalf("%+v, %v", keys, err)
	}
	active, err := receipt.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := receipt.NewKeyDocument(active, "eip155:1", keys...)
	if err != nil {
		t.Fatal(err)
	}
	again, err := receipt.ParseKeyDocument(mustMarshal(t, doc))
	if err != nil || !reflect.DeepEqual(*again.Keys[1].Logged, want) {
		t.Errorf("%+v, %v", again, err)
	}
	if _, _, err := again.Find(keys[0].KeyID); !errors.Is(err, receipt.ErrRevokedKey) {
		t.Errorf("without a proof of logging: %v", err)
	}
	for index, good := range map[int64]bool{-1: false, 0: true, 11999: true, 12000: false, 1 << 60: false} {
		if keys[0].GoodAt(want.Origin, index) != good || keys[0].GoodAt("another", index) {
			t.Errorf("good at %d: %v", index, !good)
		}
	}
}

func TestCutOff_ThatIsNotClearIsRefused(t *testing.T) {
	good := receipt.Logged{Origin: "o", Before: "1"}
	for name, data := range map[string][]byte{
		"of a retired key":       revokedKey(t, receipt.KeyRetired, &good),
		"of an active key":       revokedKey(t, receipt.KeyActive, &good),
		"without origin":         revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Before: "1"}),
		"without index":          revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: "o"}),
		"negative":               revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: "o", Before: "-1"}),
		"leading zero":           revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: "o", Before: "01"}),
		"one log twice":          revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: "o", Before: "1", Earlier: []receipt.Logged{good}}),
		"earlier, without index": revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: "o", Before: "1", Earlier: []receipt.Logged{{Origin: "p"}}}),
		"earlier than earlier":   revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: "o", Before: "1", Earlier: []receipt.Logged{{Origin: "p", Before: "1", Earlier: []receipt.Logged{{Origin: "q", Before: "1"}}}}}),
		"too large":              revokedKey(t, receipt.KeyRevoked, &receipt.Logged{Origin: "o", Before: "9223372036854775808"}),
	} {
		beside := bytes.Replace(mustMarshal(t, newDocument(t, newKey(t))), []byte(`"keys":[`), append([]byte(`"keys":`), append(bytes.TrimSuffix(data, []byte("]")), ',')...), 1)
		judgeAlike(signedBy(t, testKey(t)), beside, "")
		if keys, err := receipt.ParseKeys(data); !errors.Is(err, receipt.ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, keys, err)
		}
	}
}

func TestCutOff_AKeyWithoutOneIsWrittenAsBefore(t *testing.T) {
	text := string(mustMarshal(t, readVectors(t)[0].keys.Keys[0]))
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil || len(members) != 3 {
		t.Errorf("%s, %v", text, err)
	}
}

func TestCutOff_SparesWhatEarlierGenerationsHave(t *testing.T) {
	second := receipt.Logged{Origin: "h/v1/log/2", Before: "100", Earlier: []receipt.Logged{{Origin: "h/v1/log/1", Before: "57"}}}
	keys, err := receipt.ParseKeys(revokedKey(t, receipt.KeyRevoked, &second))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		origin string
		index  int64
		good   bool
	}{{"h/v1/log/2", 99, true}, {"h/v1/log/2", 100, false}, {"h/v1/log/1", 56, true}, {"h/v1/log/1", 57, false}, {"h/v1/log/3", 0, false}} {
		if keys[0].GoodAt(c.origin, c.index) != c.good {
			t.Errorf("entry %d of %s is good: %v", c.index, c.origin, !c.good)
		}
	}
}
