package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pforte/pforte/deploy/internal/layout"
	"github.com/pforte/pforte/deploy/internal/stack"
	"github.com/pforte/pforte/deploy/test/internal/client"
)

// TestPicture_OfSalesIsShown writes the picture of the dashboard's row Sales into the file
// PICTURE, as `make picture` does: from the stack, on which agents buy, a Prometheus that
// reads its metrics, and Grafana's own components (panels), which draw each panel as the
// dashboard has it.
func TestPicture_OfSalesIsShown(t *testing.T) {
	file := os.Getenv("PICTURE")
	if file == "" {
		t.Skip("PICTURE is not set: make picture sets it")
	}
	w := newWorld(t, options{change: func(l *layout.Layout) {
		l.Extra["verifier"] = map[string]string{"REPEATS_PER_PAYER": "1000"} // there is one payer
	}})
	prometheus := w.prometheus(t)
	w.restart(t, prometheus.Program)
	from := time.Now()
	w.trade(t)
	row := map[string]any{"panels": prometheus.row(t, "Sales", from), "from": from.Unix(), "to": time.Now().Unix()}
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	page := `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css"><body><div id="row"></div><script>window.row=` + string(text) + `</script><script src="panels.js"></script>`
	if err := os.WriteFile(filepath.Join(folder, "page.html"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "npm", "run", "build", "--prefix", "panels", "--", "--outfile="+filepath.Join(folder, "panels.js")),
		exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,472",
			"--virtual-time-budget=5000", "--screenshot="+file, "file://"+filepath.Join(folder, "page.html")),
	} {
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
}

// trading is how long agents buy. The verifier reads its books once a minute.
const trading = 150 * time.Second

// trade has agents buy evidence of transactions and of transfers, over HTTP and by tool,
// ask again, and ask for what does not hold.
func (w *world) trade(t *testing.T) {
	t.Helper()
	first := w.buy(t)
	transfer := []string{"--tx", first.Payment.Transaction, "--transfer", first.Payment.Asset, "--to", first.Payment.PayTo, "--amount", first.Payment.Amount}
	end := time.Now().Add(trading)
	for i := 1; time.Now().Before(end); i++ {
		confirmations := []string{"--min-confirmations", strconv.Itoa(i)}
		question := append([]string{"--tx", first.Transaction}, confirmations...)
		w.buy(t, question...)
		switch i % 4 {
		case 0:
			w.buy(t, append(confirmations, transfer...)...)
		case 1:
			w.buy(t, question...) // by a process that knows nothing of the first
		case 2:
			command(t, []string{"BUYER_KEY=" + layout.PayerKey}, node(t), "clients/buy-mcp.mjs", w.PublicURL,
				fmt.Sprintf(`{"transactionHash":%q,"expectations":{"status":"success","minConfirmations":%d}}`, first.Transaction, i), "MCP")
		case 3:
			w.agent(t, "--tx", first.Transaction, "--status", "reverted")
		}
	}
}

// prometheus is a Prometheus that reads the verifier's metrics.
type prometheus struct {
	stack.Program
	url string
}

func (w *world) prometheus(t *testing.T) prometheus {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	addr, folder := freeAddr(t), t.TempDir()
	config := filepath.Join(folder, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: verifier, static_configs: [{targets: [%q]}]}]\n", w.VerifierAdmin)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return prometheus{stack.Program{
		Name: "prometheus", Path: path, Ready: stack.Healthy("http://" + addr + "/-/ready"),
		Args: []string{"--config.file", config, "--storage.tsdb.path", filepath.Join(folder, "data"), "--web.listen-address", addr},
	}, "http://" + addr}
}

// row returns the panels of a row of the dashboard, each query with its result since then.
func (p prometheus) row(t *testing.T, title string, from time.Time) (panels []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(top + "/deploy/observability/grafana/pforte.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []map[string]any }
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	inRow := false
	for _, panel := range dashboard.Panels {
		if panel["type"] == "row" {
			inRow = panel["title"] == title
			continue
		}
		if !inRow {
			continue
		}
		targets, _ := panel["targets"].([]any)
		for _, target := range targets {
			target := target.(map[string]any)
			target["result"] = p.query(t, target["expr"].(string), from)
		}
		panels = append(panels, panel)
	}
	return panels
}

func (p prometheus) query(t *testing.T, expression string, from time.Time) json.RawMessage {
	t.Helper()
	var found struct {
		Data struct{ Result json.RawMessage }
	}
	query := url.Values{"query": {expression}, "start": {fmt.Sprint(from.Unix())}, "end": {fmt.Sprint(time.Now().Unix())}, "step": {"1"}}
	if err := client.Get(t.Context(), p.url+"/api/v1/query_range?"+query.Encode()).Want(http.StatusOK, &found); err != nil {
		t.Fatal(err)
	}
	return found.Data.Result
}
