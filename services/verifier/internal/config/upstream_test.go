package config_test

import (
	"strings"
	"testing"
)

func TestUpstream_PlainHTTPStaysInPrivateNetworks(t *testing.T) {
	for url, allowed := range map[string]bool{
		"https://node.example/key": true, "HTTPS://203.0.113.7": true,
		"http://127.0.0.1:8545": true, "http://127.9.9.9": true, "http://[::1]:8545": true, "http://localhost:8545": true,
		"http://10.0.0.1": true, "http://172.16.0.1": true, "http://172.31.255.255": true, "http://192.168.1.2:8545": true,
		"http://[fd00::1]": true, "http://[fc00::1]": true, "http://169.254.1.1": true, "http://[fe80::1%25eth0]": true,
		"http://[::ffff:10.0.0.1]": true,
		"http://devnet:8545":       true, "http://my_node-1": true, "http://0xnode": true,
		"http://host.docker.internal:8402": true, "http://Node.LOCAL": true, "http://a.localhost": true, "http://a.b.test": true,
		"http://facilitator.payments.svc": true, "http://node.chain.svc.cluster.local.": true,

		"http://node.example/secret": false, "HTTP://node.example/secret": false, "http://node.example:443/secret": false,
		"http://203.0.113.7/secret": false, "http://172.32.0.1/secret": false, "http://100.64.0.1/secret": false, "http://0.0.0.0/secret": false,
		"http://[2001:db8::1]/secret": false, "http://[::ffff:203.0.113.7]/secret": false, "http://[::]/secret": false,
		"http://134744072/secret": false, "http://0x08080808/secret": false, "http://001002004010/secret": false,
		"http://999999999999999999999999/secret": false, "http://0xffffffffffffffffffffffff/secret": false, "http://08.8.8.8/secret": false,
		"http://node。example/secret": false, "http://ai./secret": false, "http://internal.example/secret": false, "http://local.example./secret": false,
		"http://evilinternal.example/secret": false, "http://10.0.0.1.example/secret": false, "http://localhost@node.example/secret": false,
	} {
		for _, setting := range []string{"FACILITATOR_URL", "CHAIN_RPC_URLS", "PAYMENT_RPC_URL"} {
			if setting == "FACILITATOR_URL" && strings.Contains(url, "@") {
				continue // it may not name a user
			}
			value := url
			if setting != "FACILITATOR_URL" {
				value = "https://other.example, " + url
			}
			change := map[string]string{setting: value}
			if setting == "PAYMENT_RPC_URL" {
				change[setting] = url
			}
			_, err := load(change)
			if (err == nil) != allowed {
				t.Errorf("%s=%s: %v", setting, value, err)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), setting+": plain http") || !strings.Contains(err.Error(), "ALLOW_INSECURE_UPSTREAMS=true") ||
				strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s=%s: %v", setting, value, err)
			}
			change["ALLOW_INSECURE_UPSTREAMS"] = "true"
			if _, err := load(change); err != nil {
				t.Errorf("%s=%s, allowed: %v", setting, value, err)
			}
		}
	}
}

func TestUpstream_PlainHTTPIsReportedAtOnce(t *testing.T) {
	_, err := load(map[string]string{
		"FACILITATOR_URL": "http://a.example", "CHAIN_RPC_URLS": "http://b.example,http://c.example", "PAYMENT_RPC_URL": "http://d.example", "PAYMENT_PAY_TO": "",
	})
	for _, want := range []string{"FACILITATOR_URL: plain", "CHAIN_RPC_URLS: plain", "PAYMENT_RPC_URL: plain", "PAYMENT_PAY_TO:"} {
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("no word of %q in:\n%v", want, err)
		}
	}
}
