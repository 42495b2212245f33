// Package dynamic has what the copied files read of Traefik's settings.
package dynamic

// ForwardAuthDefaultMaxBodySize is that of Traefik.
const ForwardAuthDefaultMaxBodySize int64 = -1

// TLS is not used here.
type TLS struct {
	CAOptional         *bool
	CA, Cert, Key      string
	InsecureSkipVerify bool
}

// ForwardAuth holds the settings of the middleware forwardAuth.
type ForwardAuth struct {
	Address                  string   `yaml:"address"`
	TrustForwardHeader       *bool    `yaml:"trustForwardHeader"`
	AuthResponseHeaders      []string `yaml:"authResponseHeaders"`
	AuthResponseHeadersRegex string   `yaml:"authResponseHeadersRegex"`
	AuthRequestHeaders       []string `yaml:"authRequestHeaders"`
	AddAuthCookiesToResponse []string `yaml:"addAuthCookiesToResponse"`
	PreserveLocationHeader   bool     `yaml:"preserveLocationHeader"`
	TLS                      *TLS     `yaml:"-"`
	HeaderField              string   `yaml:"-"`
	ForwardBody              bool     `yaml:"-"`
	MaxBodySize              *int64   `yaml:"-"`
	MaxResponseBodySize      *int64   `yaml:"-"`
	PreserveRequestMethod    bool     `yaml:"-"`
	AuthSigninURL            string   `yaml:"-"`
}

// Headers holds the settings of the middleware headers.
type Headers struct {
	CustomRequestHeaders              map[string]string `yaml:"customRequestHeaders"`
	CustomResponseHeaders             map[string]string `yaml:"customResponseHeaders"`
	AccessControlAllowCredentials     bool              `yaml:"-"`
	AccessControlAllowHeaders         []string          `yaml:"-"`
	AccessControlAllowMethods         []string          `yaml:"-"`
	AccessControlAllowOriginList      []string          `yaml:"-"`
	AccessControlAllowOriginListRegex []string          `yaml:"-"`
	AccessControlExposeHeaders        []string          `yaml:"-"`
	AccessControlMaxAge               *int64            `yaml:"-"`
	AddVaryHeader                     bool              `yaml:"-"`
}

// HasCustomHeadersDefined reports whether headers are set or removed.
func (h *Headers) HasCustomHeadersDefined() bool {
	return len(h.CustomRequestHeaders)+len(h.CustomResponseHeaders) > 0
}

// HasCorsHeadersDefined reports whether there are settings of CORS, which there are not here.
func (h *Headers) HasCorsHeadersDefined() bool { return false }
