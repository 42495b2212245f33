package arch

import (
	"strings"
	"testing"
	"testing/fstest"
)

func pkg(path string, imports ...string) Package {
	for i := range imports {
		if strings.HasPrefix(imports[i], "pkg") || strings.HasPrefix(imports[i], "services/") || strings.HasPrefix(imports[i], "deploy/") {
			imports[i] = Root + imports[i]
		}
	}
	return Package{ImportPath: Root + path, Imports: imports}
}

func TestArrows_ThatRunTheWrongWayAreFaults(t *testing.T) {
	const auth, verifier = "services/auth/internal/", "services/verifier/internal/"
	for name, p := range map[string]Package{
		"up":                                 pkg(auth+"account", auth+"httpapi"),
		"to a neighbour":                     pkg(verifier+"payment", verifier+"verification"),
		"to a store, below app":              pkg(auth+"account", auth+"sqlstore"),
		"from a store to another noun":       pkg(auth+"session/redisstore", auth+"user"),
		"between stores":                     pkg(auth+"session/redisstore", auth+"sqlstore"),
		"to the settings":                    pkg(auth+"httpapi", auth+"config"),
		"to a test package":                  pkg(auth+"account", auth+"user/usertest"),
		"to another service":                 pkg(auth+"app", verifier+"chain"),
		"from pkg":                           pkg("pkg/receipt", "services/verifier/internal/chain"),
		"from receipt to pkg":                pkg("pkg/receipt", "pkg/config"),
		"from proxy to pkg":                  pkg("proxy", "pkg/config"),
		"from deploy to a service":           pkg("deploy/local", "services/auth/internal/app"),
		"from a package that is in no layer": pkg(auth + "helpers"),
		"from a test to another module":      {ImportPath: Root + auth + "app", XTestImports: []string{Root + "deploy/internal/stack"}},
	} {
		if len(Arrows([]Package{p})) == 0 {
			t.Errorf("an import %s is not found", name)
		}
	}
}

func TestArrows_ThatRunDownAreNoFaults(t *testing.T) {
	const auth = "services/auth/internal/"
	none(t, Arrows([]Package{
		pkg("services/auth/cmd/auth", auth+"app"),
		pkg(auth+"app", auth+"httpapi", auth+"config", auth+"sqlstore", "pkg/service", "fmt"),
		pkg(auth+"httpapi", auth+"account", auth+"session"),
		pkg(auth+"user/usertest", auth+"user"),
		pkg("services/verifier/internal/payment/paymenttest", "services/verifier/internal/payment", "services/verifier/internal/eip3009"),
		pkg(auth+"session/redisstore", auth+"session"),
		pkg("deploy/local", "deploy/internal/stack", "pkg/config"),
		{ImportPath: Root + auth + "session", XTestImports: []string{Root + auth + "session/sessiontest"}},
	}))
}

func TestLibraries_MustBePermitted(t *testing.T) {
	none(t, Libraries([]Package{
		pkg("services/auth/internal/httpapi", "github.com/labstack/echo/v4/middleware"),
		pkg("services/auth/internal/session/redisstore", "github.com/redis/go-redis/v9", "net/http"),
		pkg("proxy", "github.com/caddyserver/caddy/v2/cmd"),
	}))
	for _, p := range []Package{
		pkg("services/auth/internal/account", "github.com/labstack/echo/v4"),
		pkg("services/auth/internal/account", "database/sql"),
		pkg("pkg/receipt", "github.com/ethereum/go-ethereum/common"),
		pkg("services/auth/internal/account", "example.org/unknown"),
	} {
		if len(Libraries([]Package{p})) != 1 {
			t.Errorf("%s may import %s", p.ImportPath, p.Imports)
		}
	}
}

func TestLibraries_PermissionsMustBeUsed(t *testing.T) {
	all := Unused(nil)
	used := Unused([]Package{pkg("pkg/config", "github.com/caarlos0/env/v11"), {ImportPath: Root + "services/auth/internal/httpapi"}})
	if len(all)-len(used) != 2 {
		t.Errorf("without packages %d are not used, with two that use one each %d", len(all), len(used))
	}
}

func TestPackages_NeedADoc(t *testing.T) {
	none(t, Docs([]Package{
		{Name: "user", Doc: "Package user …", GoFiles: []string{"doc.go", "user.go"}},
		{Name: "main", Doc: "Auth …", GoFiles: []string{"main.go", "help.go"}},
		{Name: "api", Doc: "Package api …", GoFiles: []string{"api.go"}},
	}))
	for _, p := range []Package{
		{Name: "user", Doc: "Package user …", GoFiles: []string{"user.go", "validate.go"}},
		{Name: "user", GoFiles: []string{"doc.go"}},
		{Name: "main", GoFiles: []string{"main.go"}},
	} {
		if len(Docs([]Package{p})) != 1 {
			t.Errorf("%v is no fault", p)
		}
	}
}

func TestFiles_ThatAreUnfinishedAreFaults(t *testing.T) {
	project := fstest.MapFS{}
	for name, text := range map[string]string{
		"open.go":            "// TO" + "DO: later",
		"sub/fix.md":         "FIX" + "ME",
		"Makefile":           "cd /ro" + "ot/project",
		"right.go":           "// TO" + "DO(#12): later",
		"path.md":            "the route /api/work/x, ~/root/ and /home/you/pforte",
		"testdata/open.go":   "// TO" + "DO: later",
		"node_modules/x.mjs": "// TO" + "DO",
		"data.json":          `{"path": "/ro` + `ot/x"}`,
		"login_test.go":      "func TestTheLoginEnds(t *testing.T) {",
		"api_test.go":        "func TestAPI_Answers(t *testing.T) {\nfunc TestAnswer_IsWhole(t *testing.T) {",
	} {
		project[name] = &fstest.MapFile{Data: []byte(text)}
	}
	faults, err := Files(project)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(faults, "\n"); len(faults) != 4 || strings.Contains(got, "right.go") {
		t.Errorf("got\n%s", got)
	}
}
