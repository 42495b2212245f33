package config

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pforte/pforte/pkg/clientaddr"
	"github.com/pforte/pforte/pkg/config"
	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/sqldb"
	"github.com/pforte/pforte/pkg/tracing"

	"github.com/pforte/pforte/services/auth/internal/audit"
	"github.com/pforte/pforte/services/auth/internal/factor"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// Bounds of SESSION_LIFETIME and REMEMBER_LIFETIME, and the least length of GUARD_TOKEN. Browsers
// keep no cookie for more than 400 days.
const (
	minLifetime   = time.Hour
	minGuardToken = 32
	maxLifetime   = 400 * 24 * time.Hour
)

// DefaultAddr is the default of ADDR.
const DefaultAddr = ":8081"

// strongSecret is how long a secret that signs cookies should be at least, in characters: 32
// hexadecimal digits have 128 bits.
const strongSecret = 32

// Stores are the settings that the operator's commands need too: those of the stores, and a few more.
type Stores struct {
	DatabaseURL string `env:"DATABASE_URL" default:"sqlite:data/auth.db" secret:"true" doc:"users: sqlite:PATH or postgres://…"`
	RedisURL    string `env:"REDIS_URL" default:"redis://127.0.0.1:6379" secret:"true" doc:"sessions: redis[s]://[user:password@]host:port[/db], redis[s]+sentinel://…@host:port,host:port/master[/db], redis[s]+cluster://…@host:port,host:port"`
	AppName     string `env:"APP_NAME" default:"svc" doc:"name of the session cookie (APP_NAME.sid) and prefix of all Redis keys"`
	LogLevel    string `env:"LOG_LEVEL" default:"info" doc:"debug, info, warn or error"`
	PublicURL   string `env:"PUBLIC_URL" doc:"origin of the pages, https://host[:port], for links that are handed on and passkeys"`

	SessionSecure string `env:"SESSION_SECURE" doc:"false allows both cookies over plain http; where it is not set, a PUBLIC_URL of http does"`
}

// Data are the settings of what is sealed in the database.
type Data struct {
	DataKey         string `env:"DATA_KEY" secret:"true" doc:"seals the secrets of authenticator apps and the keys of logins at applications, 64 hexadecimal digits; without it there are neither"`
	DataKeyPrevious string `env:"DATA_KEY_PREVIOUS" secret:"true" doc:"the previous key; what it sealed is sealed again at start"`
}

// Config are all settings of auth.
type Config struct {
	Addr          string        `env:"ADDR" default:":8081" doc:"address to serve on"`
	AdminAddr     string        `env:"ADMIN_ADDR" default:"127.0.0.1:9081" doc:"address of /livez and /metrics; never behind the proxy"`
	ShutdownDelay time.Duration `env:"SHUTDOWN_DELAY" default:"0s" doc:"how long it serves after SIGTERM while reporting not ready; 5s for replicas"`
	Stores

	SessionSecret         string `env:"SESSION_SECRET,required" secret:"true" doc:"signs the session cookie; at least 32 characters, or auth warns"`
	SessionSecretPrevious string `env:"SESSION_SECRET_PREVIOUS" secret:"true" doc:"the previous secret; its cookies stay valid"`

	Data

	SessionLifetime time.Duration `env:"SESSION_LIFETIME" default:"168h" doc:"how long a session and its cookies last without activity, 1h to 9600h; the same for all replicas"`
	// RememberLifetime is zero where it is not set.
	RememberLifetime time.Duration `env:"REMEMBER_LIFETIME" doc:"the same for logins on a device that the user has remembered, SESSION_LIFETIME to 9600h; not set: 720h, or SESSION_LIFETIME if that is more"`

	PasskeyRPID string `env:"PASSKEY_RP_ID" doc:"domain that passkeys belong to: the host of PUBLIC_URL, the default, or a parent of it; changing it makes all passkeys useless"`

	HouseholdName   string        `env:"HOUSEHOLD_NAME" default:"Zuhause" doc:"name of the household until it is set on a page"`
	Pages           bool          `env:"PAGES" default:"true" doc:"false: the API and the guard only, no pages"`
	CommonPasswords string        `env:"COMMON_PASSWORDS" default:"allow" doc:"refuse: well-known passwords are refused in PATCH /me/password and POST /users too; by links they always are"`
	AuditRetention  time.Duration `env:"AUDIT_RETENTION" default:"9600h" doc:"how long entries of the audit are kept; 0 keeps all"`

	NotifyURL    string   `env:"NOTIFY_URL" secret:"true" doc:"where notifications of events are sent: a webhook, https://host/path, which gets JSON; or a topic of ntfy, ntfy+https://[user:password@]host/topic, which gets text"`
	NotifyEvents []string `env:"NOTIFY_EVENTS" default:"device_new,oidc_refresh_reused,recovery_used,reset_asked,reset_made,role_changed,second_factor_guessed,second_factor_reset" doc:"the events of which, comma-separated"`

	TrustedProxies []clientaddr.Network `env:"TRUSTED_PROXIES" doc:"addresses or networks (CIDR) of proxies whose X-Forwarded-For is trusted"`
	GuardToken     string               `env:"GUARD_TOKEN" secret:"true" doc:"what another proxy sends as X-Guard-Token to be trusted whatever its address, at least 32 characters"`

	RateLimitWindowMS    int `env:"RATE_LIMIT_WINDOW_MS" default:"60000" limit:"true" doc:"window of the login limit, in milliseconds"`
	RateLimitMaxAttempts int `env:"RATE_LIMIT_MAX_ATTEMPTS" default:"5" limit:"true" doc:"failed logins per address and window; IPv6: per /64, 4 times as many per /56, 16 times per /48"`

	BootstrapAdminUsername string `env:"BOOTSTRAP_ADMIN_USERNAME" doc:"first administrator, created at start while there are no users"`
	BootstrapAdminPassword string `env:"BOOTSTRAP_ADMIN_PASSWORD" secret:"true" doc:"their password"`

	Tracing tracing.Settings

	CompatV0 bool   `env:"COMPAT_V0" default:"false" doc:"true serves the earlier variant (AUTH-13)"`
	NodeEnv  string `env:"NODE_ENV" doc:"with COMPAT_V0: unless production, a missing SESSION_SECRET is random at every start"`

	// RandomSecret reports that SessionSecret is random and ends with the process.
	RandomSecret bool
}

// Load reads all settings from getenv and reports all faults at once.
func Load(getenv func(string) string) (Config, error) {
	random, settings := needsRandomSecret(getenv), getenv
	if random {
		secret := rand.Text() + rand.Text()
		settings = func(name string) string {
			if name == "SESSION_SECRET" {
				return secret
			}
			return getenv(name)
		}
	}
	cfg, err := config.Load[Config](settings)
	cfg.RandomSecret = random
	return cfg, err
}

// LoadData reads Data only.
func LoadData(getenv func(string) string) (Data, error) {
	return config.Load[Data](getenv)
}

// LoadStores reads Stores only.
func LoadStores(getenv func(string) string) (Stores, error) {
	return config.Load[Stores](getenv)
}

// needsRandomSecret reports whether Load makes SESSION_SECRET up: for the earlier variant outside production, where
// none is set (AUTH-13.4).
func needsRandomSecret(getenv func(string) string) bool {
	compat, _ := strconv.ParseBool(getenv("COMPAT_V0"))
	return compat && getenv("NODE_ENV") != "production" &&
		getenv("SESSION_SECRET") == "" && getenv("SESSION_SECRET_FILE") == ""
}

// appName keeps the cookie's name a token (RFC 6265, section 4.1.1).
var appName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// publicURL is an origin in lower case, names in ASCII, as browsers write it (RFC 6454, section 6.2), but for a default
// port, which they leave out.
var publicURL = regexp.MustCompile(`^https?://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// Validate checks what the types of the settings do not.
func (c *Config) Validate() error {
	faults := c.Stores.faults()
	if (c.BootstrapAdminUsername == "") != (c.BootstrapAdminPassword == "") {
		faults = append(faults,
			errors.New("BOOTSTRAP_ADMIN_USERNAME: must be set together with BOOTSTRAP_ADMIN_PASSWORD"))
	}
	if c.SessionLifetime < minLifetime || c.SessionLifetime > maxLifetime {
		faults = append(faults, errors.New("SESSION_LIFETIME: is not 1h to 9600h"))
	}
	if c.RememberLifetime != 0 && (c.RememberLifetime < c.SessionLifetime || c.RememberLifetime > maxLifetime) {
		faults = append(faults, errors.New("REMEMBER_LIFETIME: is not SESSION_LIFETIME to 9600h"))
	}
	if c.GuardToken != "" && len(c.GuardToken) < minGuardToken {
		faults = append(faults, errors.New("GUARD_TOKEN: has fewer than 32 characters"))
	}
	if c.AuditRetention < 0 {
		faults = append(faults, errors.New("AUDIT_RETENTION: is negative"))
	}
	if c.CommonPasswords != "allow" && c.CommonPasswords != "refuse" {
		faults = append(faults, errors.New("COMMON_PASSWORDS: is neither allow nor refuse"))
	}
	if name := c.HouseholdName; utf8.RuneCountInString(name) > user.MaxHouseholdName ||
		strings.ContainsFunc(name, unicode.IsControl) {
		faults = append(faults, errors.New("HOUSEHOLD_NAME: has more than 64 characters or control characters"))
	}
	if _, err := c.NotifyTarget(); err != nil {
		faults = append(faults, fmt.Errorf("NOTIFY_URL: %w", err))
	}
	for _, event := range c.NotifyEvents {
		if !slices.Contains(audit.Notifiable(), event) {
			faults = append(faults, fmt.Errorf("NOTIFY_EVENTS: %q is none of %s", event,
				strings.Join(audit.Notifiable(), ", ")))
		}
	}
	faults = append(faults, c.Data.faults()...)
	return errors.Join(append(faults, c.Tracing.Validate())...)
}

// Validate checks both keys.
func (d *Data) Validate() error { return errors.Join(d.faults()...) }

func (d *Data) faults() (faults []error) {
	for name, key := range map[string]string{"DATA_KEY": d.DataKey, "DATA_KEY_PREVIOUS": d.DataKeyPrevious} {
		if _, err := factor.NewSealer(key, ""); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	if d.DataKeyPrevious != "" && d.DataKey == "" {
		faults = append(faults, errors.New("DATA_KEY_PREVIOUS: is set without DATA_KEY"))
	}
	return faults
}

// Raw returns both keys as bytes; empty: there is none.
func (d *Data) Raw() (key, previous []byte) {
	key, _ = hex.DecodeString(d.DataKey) // checked by Validate
	previous, _ = hex.DecodeString(d.DataKeyPrevious)
	return key, previous
}

// Validate checks the forms of the three addresses, the name and the level.
func (s *Stores) Validate() error { return errors.Join(s.faults()...) }

func (s *Stores) faults() (faults []error) {
	if err := sqldb.CheckURL(s.DatabaseURL); err != nil {
		faults = append(faults, fmt.Errorf("DATABASE_URL: %w", err))
	}
	if _, err := ParseRedisURL(s.RedisURL); err != nil {
		faults = append(faults, fmt.Errorf("REDIS_URL: %w", err))
	}
	if !appName.MatchString(s.AppName) {
		faults = append(faults, errors.New("APP_NAME: is not 1 to 32 letters, digits, hyphens or underscores"))
	}
	if s.PublicURL != "" && !publicURL.MatchString(s.PublicURL) {
		faults = append(faults,
			fmt.Errorf("PUBLIC_URL: %q is not https://host[:port] or http://host[:port], in lower case", s.PublicURL))
	}
	if _, err := logging.New(io.Discard, s.LogLevel); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// WeakSecret reports whether SESSION_SECRET, or SESSION_SECRET_PREVIOUS where it is set, has fewer than strongSecret
// characters. It is used all the same.
func (c *Config) WeakSecret() bool {
	previous := utf8.RuneCountInString(c.SessionSecretPrevious)
	return utf8.RuneCountInString(c.SessionSecret) < strongSecret || previous > 0 && previous < strongSecret
}

// Secure reports whether cookies have the attribute Secure: unless SESSION_SECURE is exactly "false" (AUTH-2.3), or is
// not set and the pages are at a PUBLIC_URL of plain http.
func (s *Stores) Secure() bool {
	if s.SessionSecure == "" {
		return !strings.HasPrefix(s.PublicURL, "http://")
	}
	return s.SessionSecure != "false"
}

// Lifetimes returns how long sessions last without activity.
func (c *Config) Lifetimes() session.Lifetimes {
	return session.NewLifetimes(c.SessionLifetime, c.RememberLifetime)
}

// Sealer returns what seals secrets; nil without a DATA_KEY.
func (c *Config) Sealer() (*factor.Sealer, error) {
	return factor.NewSealer(c.DataKey, c.DataKeyPrevious)
}

// NotifyTarget returns where notifications are sent; zero without a NOTIFY_URL.
func (c *Config) NotifyTarget() (audit.NotifyTarget, error) {
	if c.NotifyURL == "" {
		return audit.NotifyTarget{}, nil
	}
	return audit.ParseNotifyTarget(c.NotifyURL)
}

// Window returns the length of the window of the login limit.
func (c *Config) Window() time.Duration {
	return time.Duration(c.RateLimitWindowMS) * time.Millisecond
}
