package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/chain/chaintest"
)

// start runs the program and returns its URL.
func start(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, append(args, "--listen", "127.0.0.1:0"), writer, io.Discard) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	url, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestNode_ServesABlockAndHeadsBeyondIt(t *testing.T) {
	file := filepath.Join(chaintest.Folder(), chaintest.BaseBlock+".json.gz")
	url := start(t, "--block", file, "--latest", "2000700", "--finalized", "2000100")
	for body, want := range map[string]string{
		`{"id":1,"method":"eth_chainId"}`:                                                `"0x2105"`,
		`{"id":1,"method":"eth_getBlockByNumber","params":["latest",false]}`:             `"number":"0x1e873c"`,
		`{"id":1,"method":"eth_getBlockByNumber","params":["finalized",false]}`:          `"number":"0x1e84e4"`,
		`{"id":1,"method":"eth_getBlockByNumber","params":["0x1",false]}`:                `"result":null`,
		`[{"id":7,"method":"eth_getBlockReceipts","params":["0x1e8480"]}]`:               `"transactionIndex":"0xe"`,
		`{"id":1,"method":"eth_getBlockByHash","params":["` + baseHash + `",true]}`:      `"maxFeePerGas"`,
		`{"id":1,"method":"eth_getTransactionReceipt","params":["` + transaction + `"]}`: `"status":"0x1"`,
		`{"id":1,"method":"eth_getTransactionByHash","params":["` + transaction + `"]}`:  `"input":"0x18cbafe5`,
		`{"id":1,"method":"eth_sendRawTransaction","params":["0x"]}`:                     `-32601`,
	} {
		if got := post(t, url, body); !strings.Contains(got, want) {
			t.Errorf("%s: no %s in %.200s", body, want, got)
		}
	}
}

const (
	baseHash    = "0xf7c65086eb140a51b0811e83ada55a91539b83462064761ad02cfaf8398eb0fe"
	transaction = "0xcaefbd4ef9f6e3e4024ef4c30926b884884cbccd5293fc534d88c4a8cb2235fb"
)

func TestNode_TakesAFolderAsARecording(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"meta.json": `{"chainId":31337}`, "receipts.json": `[]`,
		"block.json": `{"number":"0x5","hash":"0x05","timestamp":"0x1","transactions":[]}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := start(t, "--block", folder)
	if got := post(t, url, `{"id":1,"method":"eth_blockNumber"}`); !strings.Contains(got, `"0x5"`) {
		t.Error(got)
	}
	if got := post(t, url, `{"id":1,"method":"eth_chainId"}`); !strings.Contains(got, `"0x7a69"`) {
		t.Error(got)
	}
}

func TestArguments_ThatAreFaultyAreRefused(t *testing.T) {
	file := filepath.Join(chaintest.Folder(), chaintest.BaseBlock+".json.gz")
	for _, args := range [][]string{
		{}, {"--block", "nowhere"}, {"--block", file, "--latest", "5", "--finalized", "6"}, {"--port", "1"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
