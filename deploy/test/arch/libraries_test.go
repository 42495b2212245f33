package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// permitted lists in which packages, as module/folder, an outside library may be
// imported. A pattern's * stands for one name.
var permitted = map[string][]string{
	"github.com/CycloneDX/cyclonedx-go":             {"deploy/release"},
	"github.com/alicebob/miniredis/v2":              {"deploy/internal/layout"},
	"github.com/caarlos0/env/v11":                   {"pkg/config"},
	"github.com/caddyserver/caddy/v2":               {"proxy/.", "proxy/edge"},
	"github.com/caddyserver/certmagic":              {"proxy/.", "proxy/edge"},
	"github.com/libdns/libdns":                      {"proxy/edge"},
	"github.com/miekg/dns":                          {"proxy/edge"},
	"github.com/google/uuid":                        {"proxy/.", "proxy/edge"},
	"go.uber.org/zap":                               {"proxy/edge"},
	"github.com/consensys/gnark-crypto":             {"pkg/receipt/finality/internal/bls"},
	"github.com/ethereum/go-ethereum":               {"services/verifier/internal/evm", "services/verifier/internal/chain/rpc", "services/verifier/internal/verification", "services/verifier/internal/payment", "services/verifier/internal/eip3009", "services/verifier/internal/devnet", "services/verifier/internal/agent"},
	"github.com/decred/dcrd/dcrec/secp256k1/v4":     {"pkg/receipt/internal/evm", "deploy/test/internal/client"},
	"github.com/go-json-experiment/json":            {"pkg/receipt/strictjson", "pkg/receipt/.", "pkg/receipt/receiptlog", "services/verifier/internal/evm", "services/verifier/internal/chain/rpc"},
	"github.com/go-webauthn/webauthn":               {"services/auth/internal/factor/passkey"},
	"github.com/go-jose/go-jose/v4":                 {"services/auth/internal/oidc/sign"},
	"github.com/golang-jwt/jwt/v5":                  {"services/verifier/internal/payment/facilitator"},
	"github.com/gorilla/securecookie":               {"services/auth/internal/session"},
	"github.com/gorilla/sessions":                   {"services/auth/internal/session"},
	"github.com/labstack/echo/v4":                   {"pkg/service", "services/*/internal/httpapi", "services/auth/internal/pages"},
	"github.com/modelcontextprotocol/go-sdk":        {"services/verifier/internal/httpapi", "services/verifier/internal/agent"},
	"github.com/pressly/goose/v3":                   {"pkg/sqldb"},
	"github.com/prometheus/client_golang":           {"pkg/service", "proxy/edge", "services/*/internal/app", "services/verifier/internal/httpapi", "services/verifier/internal/chain/rpc", "services/verifier/internal/translog", "services/verifier/internal/beaconchain", "services/auth/internal/web"},
	"github.com/redis/go-redis/v9":                  {"services/auth/internal/session/redisstore", "services/auth/internal/application/redisstore", "services/auth/internal/oidc/redisstore", "services/auth/internal/ratelimit", "services/auth/internal/newest", "services/auth/internal/once", "services/auth/internal/config", "services/auth/internal/app"},
	"go.opentelemetry.io/otel":                      {"pkg/tracing"},
	"golang.org/x/crypto/bcrypt":                    {"services/auth/internal/password"},
	"golang.org/x/crypto/x509roots/fallback/bundle": {"deploy/release"},
	"golang.org/x/crypto/sha3":                      {"pkg/receipt/internal/*", "deploy/test/internal/client"},
	"golang.org/x/image":                            {"services/auth/internal/picture"},
	"golang.org/x/mod":                              {"pkg/receipt/receiptlog", "services/verifier/internal/translog", "services/verifier/internal/translog/logsql"},
	"golang.org/x/sync":                             {"services/auth/internal/account", "services/*/internal/*/*"},
	"golang.org/x/time/rate":                        {"services/verifier/internal/httpapi"},
	"golang.org/x/sys/unix":                         {"proxy/edge"}, // TCP_NOTSENT_LOWAT
	"golang.org/x/term":                             {"services/auth/internal/app"},
	"golang.org/x/text":                             {"services/auth/internal/user", "services/auth/internal/password", "services/auth/internal/pages", "proxy/edge"},
	"rsc.io/qr":                                     {"services/auth/internal/pages"},
	"html/template":                                 {"services/auth/internal/pages", "proxy/edge", "services/verifier/internal/httpapi"},
	"database/sql":                                  {"pkg/sqldb", "services/auth/internal/sqlstore", "services/auth/internal/user/userfile", "services/verifier/internal/payment/ledger", "services/verifier/internal/translog/logsql", "services/verifier/internal/beaconchain/bundlesql"},
	"modernc.org/sqlite":                            {"pkg/sqldb"},
	"github.com/jackc/pgx/v5":                       {"pkg/sqldb"},
}

// Libraries returns every import of an outside library where it is not permitted. Tests and test packages may use what they need.
func Libraries(packages []Package) []string {
	var faults []string
	for _, p := range packages {
		if isTest(p.Folder()) {
			continue
		}
		for _, imported := range p.Imports {
			library, outside := libraryOf(imported)
			if !outside {
				continue
			}
			folders, known := permitted[library]
			if !known {
				faults = append(faults, fmt.Sprintf("%s imports %s, which is permitted nowhere yet", p.ImportPath, imported))
			} else if !matchesAny(folders, p.Module()+"/"+p.Folder()) {
				faults = append(faults, fmt.Sprintf("%s imports %s, which is permitted in %s", p.ImportPath, imported, strings.Join(folders, " and ")))
			}
		}
	}
	return faults
}

// Unused returns every permission that no import needs, and every layer's pattern
// that no package has.
func Unused(packages []Package) []string {
	var faults []string
	for library, folders := range permitted {
		for _, folder := range folders {
			if !slices.ContainsFunc(packages, func(p Package) bool {
				return matchesAny([]string{folder}, p.Module()+"/"+p.Folder()) && slices.ContainsFunc(p.Imports, func(imported string) bool {
					found, outside := libraryOf(imported)
					return outside && found == library
				})
			}) {
				faults = append(faults, fmt.Sprintf("%s may import %s and does not", folder, library))
			}
		}
	}
	for _, pattern := range slices.Concat(layers...) {
		if !slices.ContainsFunc(packages, func(p Package) bool { return isService(p.Module()) && matchesAny([]string{pattern}, p.Folder()) }) {
			faults = append(faults, "a layer names "+pattern+", which no service has")
		}
	}
	slices.Sort(faults)
	return faults
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// libraryOf returns the library that an import path belongs to: the longest name
// in permitted that it begins with, or itself. The standard library, which has no
// dot in its first element, and our own packages are not outside, unless permitted
// names them.
func libraryOf(importPath string) (library string, outside bool) {
	for prefix := importPath; prefix != "."; prefix = path.Dir(prefix) {
		if _, known := permitted[prefix]; known {
			return prefix, true
		}
	}
	first, _, _ := strings.Cut(importPath, "/")
	return importPath, strings.Contains(first, ".") && !strings.HasPrefix(importPath, Root)
}
