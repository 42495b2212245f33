package config

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Redis is a parsed REDIS_URL. With Master, the addresses are of Sentinels and Master is
// the name that they monitor.
type Redis struct {
	Addrs                              []string
	Cluster, TLS                       bool
	Master                             string
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	DB                                 int
}

const defaultRedisPort, defaultSentinelPort = "6379", "26379"

// Errors of a REDIS_URL. None quotes it, as it may hold a password.
var (
	errRedisScheme = errors.New("is not of the form redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster://")
	errRedisHost   = errors.New("has no host, or not as host:port")
	errRedisUser   = errors.New("has a malformed user or password (escape special characters with %)")
	errRedisDB     = errors.New("has a database that is not a number")
	errRedisMaster = errors.New("has no master: redis+sentinel://host:port,host:port/MASTER")
	errRedisPath   = errors.New("a cluster has no database")
	errRedisQuery  = errors.New("has an unknown parameter; Sentinels have sentinel_username and sentinel_password")
)

// ParseRedisURL reads the forms
//
//	redis://[[user]:password@]host[:port][/db]
//	redis+sentinel://[[user]:password@]host[:port],host[:port]/master[/db][?sentinel_username=…&sentinel_password=…]
//	redis+cluster://[[user]:password@]host[:port],host[:port]
//
// each also with rediss for TLS. The default ports are 6379 and, for Sentinels,
// 26379.
func ParseRedisURL(s string) (Redis, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return Redis{}, errRedisScheme
	}
	transport, topology, _ := strings.Cut(scheme, "+")
	if transport != "redis" && transport != "rediss" || topology == "" && strings.HasSuffix(scheme, "+") {
		return Redis{}, errRedisScheme
	}
	r := Redis{TLS: transport == "rediss", Cluster: topology == "cluster"}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	hosts := authority
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		hosts = authority[i+1:]
		if err := r.readUser(authority[:i]); err != nil {
			return Redis{}, err
		}
	}
	for _, err := range []error{r.readHosts(hosts, topology), r.readPath(path, topology), r.readQuery(query, topology)} {
		if err != nil {
			return Redis{}, err
		}
	}
	return r, nil
}

func (r *Redis) readUser(userinfo string) error {
	name, password, hasPassword := strings.Cut(userinfo, ":")
	var err error
	if r.Username, err = url.PathUnescape(name); err != nil || !hasPassword && name != "" {
		return errRedisUser
	}
	if r.Password, err = url.PathUnescape(password); err != nil {
		return errRedisUser
	}
	return nil
}

func (r *Redis) readHosts(hosts, topology string) error {
	port := defaultRedisPort
	switch topology {
	case "sentinel":
		port = defaultSentinelPort
	case "cluster":
	case "":
		if strings.Contains(hosts, ",") {
			return errRedisHost
		}
	default:
		return errRedisScheme
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(host, port)
		if err != nil {
			return err
		}
		r.Addrs = append(r.Addrs, addr)
	}
	return nil
}

// hostPort adds the default port to "host", "host:port", "[::1]" or "[::1]:port".
func hostPort(s, defaultPort string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port, err = net.SplitHostPort(s + ":" + defaultPort)
	}
	if err != nil || host == "" || strings.ContainsAny(host, " \t\r\n") {
		return "", errRedisHost
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errRedisHost
	}
	return net.JoinHostPort(host, port), nil
}

func (r *Redis) readPath(path, topology string) error {
	path = strings.TrimSuffix(path, "/")
	switch topology {
	case "cluster":
		if path != "" {
			return errRedisPath
		}
		return nil
	case "sentinel":
		master, db, _ := strings.Cut(path, "/")
		name, err := url.PathUnescape(master)
		if err != nil || name == "" {
			return errRedisMaster
		}
		r.Master, path = name, db
	}
	if path == "" {
		return nil
	}
	n, err := strconv.ParseUint(path, 10, 16)
	if err != nil {
		return errRedisDB
	}
	r.DB = int(n)
	return nil
}

func (r *Redis) readQuery(query, topology string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errRedisQuery
	}
	for name := range values {
		switch {
		case topology == "sentinel" && name == "sentinel_username":
			r.SentinelUsername = values.Get(name)
		case topology == "sentinel" && name == "sentinel_password":
			r.SentinelPassword = values.Get(name)
		default:
			return errRedisQuery
		}
	}
	return nil
}
