// Command conditions takes conditions of a package out, one at a time, and reports which of
// them the tests pass without:
//
//	cd deploy && GOWORK=off go run ./test/conditions -count 10 ../services/verifier/internal/payment/paywall
//
// A condition is that of an if, a case of a switch without a value, or one side of an && or ||;
// err != nil and err == nil are left alone. It is taken out so that its branch is never taken,
// or that it does not narrow or widen what it is part of. The tests are those of the package,
// with -tests those of others of its module too. Nothing in the checkout changes: the compiler
// gets the changed file by an overlay. A line for each condition says killed if a test fails,
// or survived. The exit status is 1 when one survived or something failed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// condition is one condition and the text that the compiler reads in its place.
type condition struct {
	file       string
	line       int
	begin, end int // bytes of the file
	text, with string
}

func main() {
	r := run{packages: []string{"."}}
	flag.IntVar(&r.count, "count", 10, "how many conditions, drawn by chance; 0 is all")
	flag.Uint64Var(&r.seed, "seed", 1, "which of them are drawn")
	flag.DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long the tests may take")
	flag.BoolVar(&r.list, "list", false, "only list the conditions")
	tests := flag.String("tests", "", "packages of the module whose tests run too, separated by commas")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r.folder = flag.Arg(0)
	if *tests != "" {
		r.packages = append(r.packages, strings.Split(*tests, ",")...)
	}
	survived, err := r.do(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conditions:", err)
	}
	if err != nil || survived > 0 {
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

// run holds the values of the flags.
type run struct {
	folder   string
	packages []string // whose tests run
	count    int
	seed     uint64
	timeout  time.Duration
	list     bool
}

// do prints the drawn conditions, judged unless list is set, and returns how many survived.
func (r run) do(ctx context.Context) (survived int, err error) {
	found, err := conditionsOf(r.folder)
	if err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(r.seed, 0)) //nolint:gosec // drawn again by the same seed
	random.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	if r.count > 0 {
		found = found[:min(r.count, len(found))]
	}
	if !r.list {
		if output, err := r.test(ctx, ""); err != nil {
			return 0, fmt.Errorf("the tests fail without any change: %w\n%s", err, output)
		}
	}
	for _, c := range found {
		verdict := ""
		if !r.list {
			if verdict, err = r.judge(ctx, c); err != nil {
				return survived, err
			}
		}
		if verdict == "survived" {
			survived++
		}
		fmt.Printf("%-9s %s:%d  %s\n", verdict, filepath.Base(c.file), c.line, c.text)
	}
	return survived, nil
}

// conditionsOf returns the conditions of a package, without its tests.
func conditionsOf(folder string) (list []condition, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name) //nolint:gosec // of the package that the caller names
		if err != nil {
			return nil, err
		}
		of, err := conditionsIn(name, source)
		if err != nil {
			return nil, err
		}
		list = append(list, of...)
	}
	return list, nil
}

func conditionsIn(name string, source []byte) (list []condition, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(e ast.Expr, with string) {
		from, to := files.Position(e.Pos()), files.Position(e.End())
		c := condition{
			file: name, line: from.Line, begin: from.Offset, end: to.Offset,
			text: string(source[from.Offset:to.Offset]),
		}
		c.with = strings.ReplaceAll(with, "_", c.text)
		if !passesOn(c.text) {
			list = append(list, c)
		}
	}
	// What is taken out stays in the text, so that its variables are used.
	const never, always = "((_) && false)", "((_) || true)"
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			add(n.Cond, never)
		case *ast.SwitchStmt:
			if n.Tag != nil {
				return true
			}
			for _, clause := range n.Body.List {
				for _, e := range clause.(*ast.CaseClause).List {
					add(e, never)
				}
			}
		case *ast.BinaryExpr:
			switch n.Op {
			case token.LAND:
				add(n.X, always)
				add(n.Y, always)
			case token.LOR:
				add(n.X, never)
				add(n.Y, never)
			}
		}
		return true
	})
	return list, nil
}

// passesOn reports whether a condition is one that, as a rule, only passes an error on.
func passesOn(text string) bool { return text == "err != nil" || text == "err == nil" }

// judge runs the tests without a condition, and returns "killed" if they fail, else "survived". It is
// an error if the tests cannot be built or run.
func (r run) judge(ctx context.Context, c condition) (verdict string, err error) {
	source, err := os.ReadFile(c.file)
	if err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp("", "conditions-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	changed, overlay := filepath.Join(scratch, "changed.go"), filepath.Join(scratch, "overlay.json")
	original, err := filepath.Abs(c.file)
	if err != nil {
		return "", err
	}
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	text := append(append(bytes.Clone(source[:c.begin]), c.with...), source[c.end:]...)
	//nolint:gosec // in a folder of our own
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, replaced, 0o600)); err != nil {
		return "", err
	}
	output, err := r.test(ctx, overlay)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return "survived", nil
	case ctx.Err() != nil || !errors.As(err, &failed):
		return "", errors.Join(ctx.Err(), err)
	case bytes.Contains(output, []byte("[build failed]")) || bytes.Contains(output, []byte("[setup failed]")):
		return "", fmt.Errorf("%s:%d does not compile without the condition:\n%s", c.file, c.line, output)
	}
	return "killed", nil
}

// test runs the tests, of the package as it stands or with an overlay.
func (r run) test(ctx context.Context, overlay string) (output []byte, err error) {
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", r.timeout.String(), "-overlay", overlay}
	command := exec.CommandContext(ctx, "go", append(args, r.packages...)...) //nolint:gosec // as the caller says
	command.Dir, command.Env = r.folder, append(os.Environ(), "GOWORK=off")
	return command.CombinedOutput()
}
