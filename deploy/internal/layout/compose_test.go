package layout_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pforte/pforte/deploy/internal/layout"
)

func TestCompose_SharesTheDevelopmentChainWithMakeUp(t *testing.T) {
	text, err := os.ReadFile("../../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"PAYMENT_NETWORK: " + layout.Network, `PAYMENT_ASSET: "` + layout.Token + `"`, "PAYMENT_ASSET_NAME: " + layout.TokenName,
		`PAYMENT_ASSET_VERSION: "` + layout.TokenVersion + `"`, `PAYMENT_PAY_TO: "` + layout.Payee + `"`,
		`AGENT_PRIVATE_KEY: "` + layout.PayerKey + `"`,
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("docker-compose.yml has no line %s", line)
		}
	}
}
