// Command page writes the page that checks a receipt as one HTML file, which opens from
// disk and uses no network: package checker as WebAssembly, its words and its looks are
// in it. The same source and Go version produce the same bytes.
//
//	cd pkg/receipt && go run ./checker/page -o receipt-checker.html
//
// A file whose name ends in .gz is compressed.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var (
	//go:embed page.html
	page string
	//go:embed style.css
	style string
	//go:embed words.js
	words string
	//go:embed picture.js
	picture string
	//go:embed page.js
	script string
	//go:embed worker.js
	worker string
	// example is a receipt with its key document, its log proof and a policy. Its signing
	// key is no secret.
	//go:embed example
	example embed.FS
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "", "the file to write")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		log.Fatal("usage: page -o FILE")
	}
	if err := run(context.Background(), *out); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out string) error {
	program, err := compile(ctx)
	if err != nil {
		return err
	}
	root, err := runGo(ctx, "env", "GOROOT")
	if err != nil {
		return err
	}
	support, err := os.ReadFile(filepath.Join(root, "lib", "wasm", "wasm_exec.js")) //nolint:gosec // Go's own folder
	if err != nil {
		return err
	}
	compressed, err := compress(program)
	if err != nil {
		return err
	}
	html, err := compose(string(support)+worker, compressed)
	if err != nil {
		return err
	}
	if strings.HasSuffix(out, ".gz") {
		if html, err = compress(html); err != nil {
			return err
		}
	}
	return os.WriteFile(out, html, 0o644) //nolint:gosec // a page that everybody may read
}

// compose puts the parts together. The page's Content-Security-Policy allows its script and its
// style by their hashes, a worker from a blob of the page, and no other.
func compose(worker string, program []byte) ([]byte, error) {
	scripts := words + picture + script
	for _, part := range []string{scripts, worker, style} {
		if strings.Contains(part, "</s") { // it would end its element
			return nil, errors.New("a part of the page has an end tag")
		}
	}
	texts, err := examples()
	if err != nil {
		return nil, err
	}
	policy := strings.Join([]string{
		"default-src 'none'", "script-src " + source(scripts) + " 'wasm-unsafe-eval'", "style-src " + source(style),
		"worker-src blob:",
		"img-src data:", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'",
		"trusted-types checker",
	}, "; ")
	return []byte(strings.NewReplacer(
		"{{policy}}", policy, "{{style}}", style, "{{script}}", scripts, "{{worker}}", worker, "{{example}}", texts,
		"{{program}}", base64.StdEncoding.EncodeToString(program),
	).Replace(page)), nil
}

// examples returns the texts of the example with their names, as JSON that HTML may hold.
func examples() (string, error) {
	type named struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	var texts []named
	for _, name := range []string{"answer.json", "receipt-signing-key.json", "answer.tlog-proof", "policy"} {
		text, err := example.ReadFile("example/" + name)
		if err != nil {
			return "", err
		}
		texts = append(texts, named{name, string(text)})
	}
	text, err := json.Marshal(texts)
	return string(text), err
}

// source returns the source expression by which a Content-Security-Policy allows a text by its hash.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

const (
	curve = "github.com/decred/dcrd/dcrec/secp256k1/v4"
	// table holds multiples of the curve's generator: half a megabyte even compressed. With the
	// tag tinygo its package works without it.
	table = "compressedbytepoints.go"
	// scratch is a folder of the module: Go writes its path into the program, which must be the same everywhere.
	scratch = ".checker"
)

// compile returns the WebAssembly program, made small: without the curve's table, and with
// inlining only in the packages that compute signatures and hashes.
func compile(ctx context.Context) ([]byte, error) {
	if err := errors.Join(os.RemoveAll(scratch), os.Mkdir(scratch, 0o750)); err != nil { // of a build that was stopped
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	text, err := runGo(ctx, "mod", "download", "-json", curve)
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &module); err != nil {
		return nil, err
	}
	lean := filepath.Join(scratch, "curve")
	if err := os.CopyFS(lean, os.DirFS(module.Dir)); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(lean, table)); err != nil {
		return nil, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name) //nolint:gosec // one of two names
		if err != nil {
			return nil, err
		}
		if name == "go.mod" {
			text = fmt.Appendf(text, "\nreplace %s => ./%s\n", curve, filepath.ToSlash(lean))
		}
		err = os.WriteFile(filepath.Join(scratch, name), text, 0o600) //nolint:gosec // one of two names
		if err != nil {
			return nil, err
		}
	}
	program := filepath.Join(scratch, "checker.wasm")
	args := []string{
		"build", "-modfile", filepath.Join(scratch, "go.mod"), "-tags", "tinygo", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w", "-gcflags", "all=-l",
	}
	for _, fast := range []string{
		"github.com/decred/...", "github.com/consensys/...", "golang.org/x/crypto/...",
		"crypto/internal/fips140/edwards25519/...",
	} {
		args = append(args, "-gcflags", fast+"=")
	}
	args = append(args, "-o", program, "./checker/wasm")
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments of ours
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the checker: %w\n%s", err, text)
	}
	return os.ReadFile(program) //nolint:gosec // what was just made
}

func runGo(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments of ours
	cmd.Env = append(os.Environ(), "GOWORK=off")
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}
