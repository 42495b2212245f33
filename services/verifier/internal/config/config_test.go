package config_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/config"
)

func TestREADME_HasTheTableOfTheSettings(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := config.Table(); !strings.Contains(string(readme), table) {
		t.Errorf("README.md must hold this table:\n%s", table)
	}
}

// required is what has no default.
func required() map[string]string {
	return map[string]string{
		"CHAIN_RPC_URLS": "https://node.example", "RECEIPT_SIGNING_KEY": "key", "FACILITATOR_URL": "https://facilitator.example", "PAYMENT_PAY_TO": "0x1",
	}
}

func load(change map[string]string) (config.Config, error) {
	env := required()
	for name, value := range change {
		env[name] = value
	}
	return config.Load(func(name string) string { return env[name] })
}

func TestLoad_DefaultsAreThoseOfTheContract(t *testing.T) {
	c, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr != ":8082" || c.DatabaseURL != "sqlite:data/verifier.db" || c.Chain.Name != "base" || c.Chain.ID != 8453 || c.Chain.Quorum != 0 ||
		c.Facilitator.FreeSettlements != 1000 || c.Payment.Network != "eip155:8453" || c.Payment.Amount != "10000" || c.Payment.MaxTimeoutSeconds != 60 || !c.Payment.V1 || c.LogLevel != "info" {
		t.Errorf("defaults are %+v", c)
	}
}

func TestLoad_ALimitThatIsNoneIsItsDefault(t *testing.T) {
	for _, value := range []string{"0", "-5", "many"} {
		c, err := load(map[string]string{
			"FACILITATOR_VERIFY_TIMEOUT": value, "PAYMENT_MAX_TIMEOUT_SECONDS": value, "UNPAID_ATTEMPTS_PER_PAYER": value, "CHAIN_RPC_QUORUM": value,
		})
		if err != nil || c.Facilitator.VerifyTimeout != 10*time.Second || c.Payment.MaxTimeoutSeconds != 60 || c.Payment.PerPayer != 300 || c.Chain.Quorum != 0 {
			t.Errorf("%q: %+v, %v", value, c, err)
		}
	}
}

func TestLoad_FaultsNameTheirSetting(t *testing.T) {
	for setting, change := range map[string]map[string]string{
		"CHAIN_RPC_URLS":               {"CHAIN_RPC_URLS": ""},
		"CHAINS_FILE":                  {"CHAINS_FILE": "chains.json"},
		"CHAIN_BEACON_TIMEOUT":         {"CHAIN_RPC_URLS": "", "CHAINS_FILE": "chains.json", "CHAIN_BEACON_TIMEOUT": "2m"},
		"FACILITATOR_URL":              {"FACILITATOR_URL": ""},
		"FACILITATOR_FREE_SETTLEMENTS": {"FACILITATOR_FREE_SETTLEMENTS": "-1"},
		"CDP_API_KEY_ID":               {"CDP_API_KEY_ID": "id"},
		"PUBLIC_URL":                   {"PUBLIC_URL": "verifier.example"},
		"PAYMENT_RPC_URL":              {"PAYMENT_RPC_URL": "https://one.example,two"},
		"PAYMENT_CONFIRM":              {"PAYMENT_CONFIRM": "maybe"},
		"REPEAT_WINDOW":                {"REPEAT_WINDOW": "-1h"},
		"RECEIPT_SIGNING_KEY":          {"RECEIPT_SIGNING_KEY": ""},
		"PAYMENT_PAY_TO":               {"PAYMENT_PAY_TO": ""},
		"X402_V1":                      {"X402_V1": "perhaps"},
		"LOG_LEVEL":                    {"LOG_LEVEL": "loud"},
		"DATABASE_URL":                 {"DATABASE_URL": "mysql://x"},
		"LOG_POLICY_FILE":              {"RECEIPT_LOG_KEY": "key"},
		"TRUSTED_PROXIES":              {"TRUSTED_PROXIES": "10.0.0.0/8,here"},
	} {
		_, err := load(change)
		if err == nil || !strings.HasPrefix(err.Error(), setting+":") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

func TestLoad_AnAddressToWhichPathsAreAddedHasNoQueryAndNoUser(t *testing.T) {
	for _, value := range []string{
		"https://host.example/?x", "https://host.example?", "https://host.example/#x", "https://host.example#",
		"https://user@host.example", "https://user:secret@host.example",
	} {
		for _, setting := range []string{"PUBLIC_URL", "FACILITATOR_URL"} {
			_, err := load(map[string]string{setting: value})
			if err == nil || !strings.HasPrefix(err.Error(), setting+":") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s=%s: %v", setting, value, err)
			}
		}
	}
	if _, err := load(map[string]string{"CHAIN_RPC_URLS": "https://user:secret@node.example/?key=secret"}); err != nil {
		t.Error(err)
	}
}

func TestLoad_TheLedgerIsEnoughForTheOperator(t *testing.T) {
	l, err := config.LoadLedger(func(string) string { return "" })
	if err != nil || l.DatabaseURL != "sqlite:data/verifier.db" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLoad_TheCDPKeyIsEnoughWithoutAFacilitator(t *testing.T) {
	if _, err := load(map[string]string{"FACILITATOR_URL": "", "CDP_API_KEY_ID": "id", "CDP_API_KEY_SECRET": "secret"}); err != nil {
		t.Error(err)
	}
}
