package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/config"
	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"
)

// DefaultAddr is where auth serves unless ADDR says otherwise.
const DefaultAddr = ":8081"

// strongSecret is the length from which a secret that signs cookies is beyond
// guessing, in characters: 32 hexadecimal digits hold 128 bits.
const strongSecret = 32

// Stores says where users and sessions live, and which are ours: all that a
// command at the terminal needs.
type Stores struct {
	DatabaseURL string `env:"DATABASE_URL" default:"sqlite:data/auth.db" secret:"true" doc:"where the users are: sqlite:PATH or postgres://…"`
	RedisURL    string `env:"REDIS_URL" default:"redis://127.0.0.1:6379" secret:"true" doc:"where the sessions are: redis[s]://[user:password@]host:port[/db], redis[s]+sentinel://…@host:port,host:port/master[/db], redis[s]+cluster://…@host:port,host:port"`
	AppName     string `env:"APP_NAME" default:"svc" doc:"names the session cookie, APP_NAME.sid, and begins all keys in Redis"`
	LogLevel    string `env:"LOG_LEVEL" default:"info" doc:"debug, info, warn or error"`
}

// Config is everything that auth can be told.
type Config struct {
	Addr          string        `env:"ADDR" default:":8081" doc:"address to serve on"`
	AdminAddr     string        `env:"ADMIN_ADDR" default:"127.0.0.1:9081" doc:"address of /livez and /metrics; never behind the proxy"`
	ShutdownDelay time.Duration `env:"SHUTDOWN_DELAY" default:"0s" doc:"how long a stop goes on serving, as not ready, so that the proxy leaves first; for replicas 5s"`
	Stores

	SessionSecret         string `env:"SESSION_SECRET,required" secret:"true" doc:"signs the session cookie; under 32 characters auth warns that it can be guessed"`
	SessionSecretPrevious string `env:"SESSION_SECRET_PREVIOUS" secret:"true" doc:"the secret before the last change; cookies signed with it stay valid"`
	SessionSecure         string `env:"SESSION_SECURE" doc:"false lets both cookies travel over plain http; any other value, or none, keeps them on https"`

	TrustedProxies []clientaddr.Network `env:"TRUSTED_PROXIES" doc:"addresses or networks (CIDR) of the proxies whose X-Forwarded-For is believed; without any, the address of the peer counts"`

	RateLimitWindowMS    int `env:"RATE_LIMIT_WINDOW_MS" default:"60000" limit:"true" doc:"length of the window of the login limit, in milliseconds"`
	RateLimitMaxAttempts int `env:"RATE_LIMIT_MAX_ATTEMPTS" default:"5" limit:"true" doc:"failed logins of one address in a window; of IPv6: of a /64, 4 times as many of a /56, 16 times as many of a /48"`

	BootstrapAdminUsername string `env:"BOOTSTRAP_ADMIN_USERNAME" doc:"name of the first administrator, made at start while there is no user at all"`
	BootstrapAdminPassword string `env:"BOOTSTRAP_ADMIN_PASSWORD" secret:"true" doc:"his password"`

	Tracing tracing.Settings

	CompatV0 bool   `env:"COMPAT_V0" default:"false" doc:"true serves the earlier variant of the contract (section 9): SameSite=Strict, no csrfToken in bodies, /me sets no cookie"`
	NodeEnv  string `env:"NODE_ENV" doc:"with COMPAT_V0 only: unless it is production, a missing SESSION_SECRET is replaced by a random one at every start"`

	// RandomSecret tells that SessionSecret was made up and ends with the
	// process.
	RandomSecret bool
}

// Load reads all settings from getenv and reports all faults at once.
func Load(getenv func(string) string) (Config, error) {
	random := needsRandomSecret(getenv)
	if random {
		getenv = withSecret(getenv, rand.Text()+rand.Text())
	}
	cfg, err := config.Load[Config](getenv)
	cfg.RandomSecret = random
	return cfg, err
}

// LoadStores reads the settings of the stores alone.
func LoadStores(getenv func(string) string) (Stores, error) {
	return config.Load[Stores](getenv)
}

// needsRandomSecret is the last row of the contract's section 9.
func needsRandomSecret(getenv func(string) string) bool {
	compat, _ := strconv.ParseBool(getenv("COMPAT_V0"))
	return compat && getenv("NODE_ENV") != "production" &&
		getenv("SESSION_SECRET") == "" && getenv("SESSION_SECRET_FILE") == ""
}

func withSecret(getenv func(string) string, secret string) func(string) string {
	return func(name string) string {
		if name == "SESSION_SECRET" {
			return secret
		}
		return getenv(name)
	}
}

// appName keeps the cookie's name a token (RFC 6265, section 4.1.1).
var appName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// Validate checks what one setting's type cannot say.
func (c *Config) Validate() error {
	faults := []error{c.Stores.Validate()}
	if (c.BootstrapAdminUsername == "") != (c.BootstrapAdminPassword == "") {
		faults = append(faults, errors.New("BOOTSTRAP_ADMIN_USERNAME: comes only together with BOOTSTRAP_ADMIN_PASSWORD"))
	}
	return flat(append(faults, c.Tracing.Validate()))
}

// Validate checks the forms of both addresses, the name and the level.
func (s *Stores) Validate() error {
	var faults []error
	if err := sqldb.CheckURL(s.DatabaseURL); err != nil {
		faults = append(faults, fmt.Errorf("DATABASE_URL: %w", err))
	}
	if _, err := ParseRedisURL(s.RedisURL); err != nil {
		faults = append(faults, fmt.Errorf("REDIS_URL: %w", err))
	}
	if !appName.MatchString(s.AppName) {
		faults = append(faults, errors.New("APP_NAME: is not 1 to 32 letters, digits, hyphens or underscores"))
	}
	if _, err := logging.New(io.Discard, s.LogLevel); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// flat joins errors, of which the first may itself be joined, on one level.
func flat(faults []error) error {
	if joined, ok := faults[0].(interface{ Unwrap() []error }); ok {
		faults = append(joined.Unwrap(), faults[1:]...)
	}
	return errors.Join(faults...)
}

// WeakSecret tells that a secret that signs cookies is short enough to be
// guessed. The contract refuses only one that is unset (section 5).
func (c *Config) WeakSecret() bool {
	previous := utf8.RuneCountInString(c.SessionSecretPrevious)
	return utf8.RuneCountInString(c.SessionSecret) < strongSecret || previous > 0 && previous < strongSecret
}

// Secure tells whether both cookies carry the attribute Secure: always, unless
// SESSION_SECURE is exactly "false" (contract, section 2).
func (c *Config) Secure() bool { return c.SessionSecure != "false" }

// Window is the length of the window of the login limit.
func (c *Config) Window() time.Duration {
	return time.Duration(c.RateLimitWindowMS) * time.Millisecond
}
