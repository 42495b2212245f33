package secrets_test

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/deploy/internal/secrets"
	"github.com/pforte/pforte/pkg/receipt"
)

func TestRotateDataKey_KeepsThePresentOneAsThePrevious(t *testing.T) {
	folder := made(t)
	present := content(t, folder, "data-key")
	later := time.Now().Add(11 * time.Minute)
	if err := secrets.RotateDataKey(folder, later); err != nil {
		t.Fatal(err)
	}
	next := content(t, folder, "data-key")
	if content(t, folder, "data-key-previous") != present || next == present || len(next) != len(present) {
		t.Error("the previous key is not the one that was present, or the present one is no other")
	}
	// What auth has not sealed anew yet would be lost with the key before.
	if err := secrets.RotateDataKey(folder, time.Now()); !errors.Is(err, secrets.ErrTooSoon) || content(t, folder, "data-key") != next {
		t.Errorf("again at once: %v", err)
	}
	if err := secrets.RotateDataKey(folder, later); err != nil || content(t, folder, "data-key-previous") != next {
		t.Errorf("again later: %v", err)
	}
}

func TestRotateDataKey_FinishesOneThatWasCutShort(t *testing.T) {
	folder := made(t)
	present := content(t, folder, "data-key")
	if err := os.WriteFile(filepath.Join(folder, "data-key-previous"), []byte(present), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := secrets.RotateDataKey(folder, time.Now()); err != nil || content(t, folder, "data-key") == present || content(t, folder, "data-key-previous") != present {
		t.Errorf("got %v", err)
	}
}

func TestPutDataKey_LosesNoKey(t *testing.T) {
	copied := strings.Repeat("0123456789abcdef", 4)
	folder := t.TempDir()
	for _, wrong := range []string{"", "0123", strings.Repeat("x", 64), copied + "00"} {
		if err := secrets.PutDataKey(folder, wrong); err == nil || wrong != "" && strings.Contains(err.Error(), wrong) {
			t.Errorf("%d characters: %v", len(wrong), err)
		}
	}
	if err := secrets.PutDataKey(folder, copied+"\n"); err != nil || content(t, folder, "data-key") != copied {
		t.Fatalf("where none was: %v", err)
	}
	folder = made(t)
	present, previous := content(t, folder, "data-key"), content(t, folder, "data-key-previous")
	for _, same := range []string{present, strings.ToUpper(present), secrets.NewDataKey} {
		if err := secrets.PutDataKey(folder, same); err != nil || content(t, folder, "data-key-previous") != previous {
			t.Errorf("%s, beside the present one: %v", same, err)
		}
	}
	if err := secrets.PutDataKey(folder, copied); err != nil {
		t.Fatal(err)
	}
	if content(t, folder, "data-key") != present || content(t, folder, "data-key-previous") != copied {
		t.Error("beside another one it is not the previous one")
	}
}

// A new key would open none of the secrets that were restored.
func TestMake_MakesNoDataKeyForRestoredSecrets(t *testing.T) {
	for name, key := range map[string]string{"its copy": strings.Repeat("0123456789abcdef", 4), "given up": secrets.NewDataKey} {
		folder := t.TempDir()
		mark := filepath.Join(folder, secrets.Sealed)
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := secrets.Make(folder); !errors.Is(err, secrets.ErrSealed) {
			t.Fatalf("%s: made: %v", name, err)
		}
		if err := secrets.PutDataKey(folder, key); err != nil {
			t.Fatal(err)
		}
		put := content(t, folder, "data-key")
		if err := secrets.Make(folder); err != nil || content(t, folder, "data-key") != put {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the mark is there: %v", name, err)
		}
	}
	// The key is there: it was restored in place.
	folder := made(t)
	if err := os.WriteFile(filepath.Join(folder, secrets.Sealed), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Make(folder); err != nil {
		t.Error(err)
	}
}

// passwordOf returns the password of the URL in a file, after another one than before.
func passwordOf(t *testing.T, folder, name, host, before string) string {
	t.Helper()
	u, err := url.Parse(content(t, folder, name))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	if u.Host != host || len(password) < 20 || password == before {
		t.Errorf("%s: a password of %d characters at %s", name, len(password), u.Host)
	}
	return password
}

func TestRotateRedis_ChangesBothSides(t *testing.T) {
	folder := made(t)
	if err := secrets.RotateRedis(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a Redis: %v", err)
	}
	if err := secrets.MakeRedis(folder, "redis"); err != nil {
		t.Fatal(err)
	}
	before := passwordOf(t, folder, "redis-url", "redis:6379", "")
	if err := secrets.RotateRedis(folder); err != nil {
		t.Fatal(err)
	}
	after := passwordOf(t, folder, "redis-url", "redis:6379", before)
	if err := secrets.MakeRedis(folder, "redis"); err != nil || content(t, folder, "redis.conf") != "requirepass "+after+"\n" {
		t.Errorf("Redis has another one: %v", err)
	}
}

func TestRotateDatabases_ChangesURLsAndTellsPostgres(t *testing.T) {
	folder, roles := made(t), t.TempDir()
	if err := secrets.MakeDatabases(folder, roles, "postgres"); err != nil {
		t.Fatal(err)
	}
	superuser := content(t, roles, "superuser-password")
	before := map[string]string{}
	for _, service := range []string{"auth", "verifier"} {
		before[service] = passwordOf(t, folder, service+"-database-url", "postgres:5432", "")
	}
	if err := secrets.RotateDatabases(folder, roles); err != nil {
		t.Fatal(err)
	}
	want := "BEGIN;\nALTER ROLE postgres PASSWORD '" + content(t, roles, "superuser-password") + "';\n"
	for _, service := range []string{"auth", "verifier"} {
		after := passwordOf(t, folder, service+"-database-url", "postgres:5432", before[service])
		want += "ALTER ROLE " + service + " PASSWORD '" + after + "';\n"
		if fresh := content(t, roles, service+".sql"); !strings.Contains(fresh, "CREATE ROLE "+service+" LOGIN PASSWORD '"+after+"';") {
			t.Errorf("a new Postgres gets another password of %s", service)
		}
	}
	if content(t, roles, "superuser-password") == superuser {
		t.Error("the superuser keeps the password")
	}
	if diff := cmp.Diff(want+"COMMIT;\n", content(t, roles, secrets.AlterRoles)); diff != "" || strings.HasSuffix(secrets.AlterRoles, ".sql") {
		t.Errorf("%s (-want +got):\n%s", secrets.AlterRoles, diff)
	}
}

// statusOf returns a key of the document.
func statusOf(t *testing.T, folder, id string) receipt.Key {
	t.Helper()
	for _, key := range document(t, folder).Keys {
		if key.KeyID == id {
			return key
		}
	}
	t.Fatalf("%s is not published", id)
	return receipt.Key{}
}

func TestRevokeReceiptKey_RevokesOneThatSignedAndNeverTheOneThatSigns(t *testing.T) {
	folder := made(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	signed := document(t, folder).KeyID
	for _, id := range []string{signed, "an unknown one"} {
		if err := secrets.RevokeReceiptKey(folder, id, nil, now); !errors.Is(err, secrets.ErrNotListed) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := errors.Join(secrets.AnnounceReceiptKey(folder), secrets.RotateReceiptKey(folder)); err != nil {
		t.Fatal(err)
	}
	cutOff := &receipt.Logged{Origin: "home.example.org/v1/log/1", Before: "12000"}
	for _, spared := range []*receipt.Logged{nil, cutOff, nil} { // what a cut-off spared stays spared
		if err := secrets.RevokeReceiptKey(folder, signed, spared, now); err != nil {
			t.Fatal(err)
		}
	}
	got := statusOf(t, folder, signed)
	if got.Status != receipt.KeyRevoked || got.RevokedAt != "2026-03-01T12:00:00Z" || !cmp.Equal(got.Logged, cutOff) {
		t.Errorf("it is %+v, %+v", got, got.Logged)
	}
}

func TestRevokeReceiptKey_OfTheAnnouncedOneNeverSigns(t *testing.T) {
	folder := made(t)
	if err := secrets.AnnounceReceiptKey(folder); err != nil {
		t.Fatal(err)
	}
	keys := document(t, folder).Keys
	next := keys[len(keys)-1].KeyID
	if err := secrets.RevokeReceiptKey(folder, next, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if status := statusOf(t, folder, next).Status; status != receipt.KeyRevoked {
		t.Errorf("it is %s", status)
	}
	if err := secrets.RotateReceiptKey(folder); !errors.Is(err, secrets.ErrNotAnnounced) {
		t.Errorf("it can sign: %v", err)
	}
}

// What cannot be read may be the key of everything that is sealed.
func TestRotateDataKey_KeepsAPreviousKeyThatItCannotRead(t *testing.T) {
	folder := made(t)
	present, previous := content(t, folder, secrets.DataKey), filepath.Join(folder, secrets.PreviousDataKey)
	if err := errors.Join(os.Remove(previous), os.Symlink(previous, previous)); err != nil {
		t.Fatal(err)
	}
	if err := secrets.RotateDataKey(folder, time.Now()); err == nil || content(t, folder, secrets.DataKey) != present {
		t.Errorf("it was replaced: %v", err)
	}
}
