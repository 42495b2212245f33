package config_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pforte/pforte/pkg/config"
)

type Common struct {
	Addr string `env:"ADDR" default:":1" doc:"where to serve"`
}

type sample struct {
	Common
	Secret  string         `env:"SECRET,required" secret:"true" doc:"signs"`
	Max     int            `env:"MAX" default:"5" limit:"true" doc:"how many"`
	Window  time.Duration  `env:"WINDOW" default:"1m" limit:"true" doc:"how long | so"`
	Trusted []netip.Prefix `env:"TRUSTED" doc:"whom"`
	Names   []string       `env:"NAMES" default:"a,b" doc:"which"`
	Secure  bool           `env:"SECURE" default:"true" doc:"whether"`
	Number  int            `env:"NUMBER" doc:"any number"`
	Pause   time.Duration  `env:"PAUSE" doc:"how long it rests"`
}

func (s *sample) Validate() error {
	var faults []error
	if s.Number == 13 {
		faults = append(faults, errors.New("NUMBER: 13 brings no luck"))
	}
	for _, name := range s.Names {
		if strings.Contains(name, "!") {
			faults = append(faults, errors.New("NAMES: "+name))
		}
	}
	if s.Secret == "" {
		faults = append(faults, errors.New("SECRET: is too short"))
	}
	return errors.Join(faults...)
}

func load(t *testing.T, environment map[string]string) (sample, error) {
	t.Helper()
	return config.Load[sample](func(name string) string { return environment[name] })
}

func TestLoad_DefaultsApplyWhereNothingIsSet(t *testing.T) {
	got, err := load(t, map[string]string{"SECRET": "s", "ADDR": "", "TRUSTED": "10.0.0.0/8,::1/128"})
	if err != nil {
		t.Fatal(err)
	}
	want := sample{
		Common: Common{Addr: ":1"}, Secret: "s", Max: 5, Window: time.Minute, Names: []string{"a", "b"}, Secure: true,
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestLoad_ALimitThatIsNoneMeansItsDefault(t *testing.T) {
	for _, value := range []string{"0", "-3", "many", "1e3", " ", "99999999999999999999"} {
		got, err := load(t, map[string]string{"SECRET": "s", "MAX": value, "WINDOW": value})
		if err != nil || got.Max != 5 || got.Window != time.Minute {
			t.Errorf("%q: got %d, %s, %v", value, got.Max, got.Window, err)
		}
	}
	got, err := load(t, map[string]string{"SECRET": "s", "MAX": "7", "WINDOW": "2s"})
	if err != nil || got.Max != 7 || got.Window != 2*time.Second {
		t.Errorf("got %d, %s, %v", got.Max, got.Window, err)
	}
}

func TestLoad_ReportsAllFaultsAtOnce(t *testing.T) {
	_, err := load(t, map[string]string{"NUMBER": "x", "SECURE": "perhaps", "TRUSTED": "nowhere"})
	if err == nil {
		t.Fatal("no fault reported")
	}
	for _, name := range []string{"SECRET: is required", "NUMBER: ", "SECURE: ", "TRUSTED: "} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not in %q", name, err)
		}
	}
}

func TestLoad_SaysHowADurationIsWritten(t *testing.T) {
	_, err := load(t, map[string]string{"SECRET": "s", "PAUSE": "7d"})
	if err == nil || err.Error() != `PAUSE: "7d" is not a duration, such as 90s, 15m or 168h` {
		t.Errorf("got %v", err)
	}
}

func TestLoad_CallsValidateToo(t *testing.T) {
	if _, err := load(t, map[string]string{"SECRET": "s", "NUMBER": "13"}); err == nil || err.Error() != "NUMBER: 13 brings no luck" {
		t.Errorf("got %v", err)
	}
}

func TestLoad_CallsValidateThoughASettingIsMissing(t *testing.T) {
	_, err := load(t, map[string]string{"NUMBER": "13"})
	if err == nil || err.Error() != "SECRET: is required\nNUMBER: 13 brings no luck" {
		t.Errorf("got %v", err)
	}
}

func TestLoad_ReportsEveryFaultOfASetting(t *testing.T) {
	_, err := load(t, map[string]string{"SECRET": "s", "NAMES": "a!,b,c!"})
	if err == nil || err.Error() != "NAMES: a!\nNAMES: c!" {
		t.Errorf("got %v", err)
	}
}

func TestLoad_TakesASecretFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, map[string]string{"SECRET_FILE": path})
	if err != nil || got.Secret != "from file" {
		t.Errorf("got %q, %v", got.Secret, err)
	}
	if _, err := load(t, map[string]string{"SECRET_FILE": path, "SECRET": "hunter2"}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("both set: got %v", err)
	}
	_, err = load(t, map[string]string{"SECRET_FILE": path + ".none"})
	if err == nil || strings.Contains(err.Error(), "required") {
		t.Errorf("no such file: got %v", err)
	}
	if err := os.WriteFile(path, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, map[string]string{"SECRET_FILE": path}); err == nil {
		t.Error("an empty file was taken for a secret")
	}
}

func TestTable_NamesEverySetting(t *testing.T) {
	want := "| Setting | Default | Meaning |\n|---|---|---|\n" +
		"| `ADDR` | `:1` | where to serve |\n" +
		"| `SECRET` (or `SECRET_FILE`) | required | signs |\n" +
		"| `MAX` | `5` | how many |\n" +
		"| `WINDOW` | `1m` | how long \\| so |\n" +
		"| `TRUSTED` |  | whom |\n" +
		"| `NAMES` | `a,b` | which |\n" +
		"| `SECURE` | `true` | whether |\n" +
		"| `NUMBER` |  | any number |\n" +
		"| `PAUSE` |  | how long it rests |\n"
	if diff := cmp.Diff(want, config.Table[sample]()); diff != "" {
		t.Error(diff)
	}
}
