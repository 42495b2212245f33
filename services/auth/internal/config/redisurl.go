package config

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Errors of a REDIS_URL. None quotes it, as it may hold a password.
var (
	errRedisScheme = errors.New("is not of the form redis://, rediss://, redis+sentinel://, rediss+sentinel://, " +
		"redis+cluster:// or rediss+cluster://")
	errRedisHost   = errors.New("has no host, or not as host:port")
	errRedisUser   = errors.New("has a malformed user or password (escape special characters with %)")
	errRedisDB     = errors.New("has a database that is not a number")
	errRedisMaster = errors.New("has no master: redis+sentinel://host:port,host:port/MASTER")
	errRedisPath   = errors.New("a cluster has no database")
	errRedisQuery  = errors.New("has an unknown parameter; Sentinels have sentinel_username and sentinel_password")
)

// redisURL has the groups transport, topology, user, hosts, path and query.
var redisURL = regexp.MustCompile(`(?s)\A(rediss?)(\+sentinel|\+cluster)?://(?:([^/?]*)@)?([^/?]*)/?([^?]*)\??(.*)\z`)

// ParseRedisURL reads the forms
//
//	redis://[[user]:password@]host[:port][/db]
//	redis+sentinel://[[user]:password@]host[:port],host[:port]/master[/db][?sentinel_username=…&sentinel_password=…]
//	redis+cluster://[[user]:password@]host[:port],host[:port]
//
// each also with rediss for TLS. The default ports are 6379 and, for Sentinels, 26379. The parsers of go-redis take
// other forms for Sentinels and Clusters, and dozens of options.
func ParseRedisURL(s string) (*redis.UniversalOptions, error) {
	groups := redisURL.FindStringSubmatch(s)
	if groups == nil {
		return nil, errRedisScheme
	}
	userinfo, hosts, path, query := groups[3], groups[4], strings.TrimSuffix(groups[5], "/"), groups[6]
	cluster, sentinel := groups[2] == "+cluster", groups[2] == "+sentinel"
	o := &redis.UniversalOptions{IsClusterMode: cluster}
	if groups[1] == "rediss" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}

	name, password, both := strings.Cut(userinfo, ":")
	var nameErr, passwordErr error
	o.Username, nameErr = url.PathUnescape(name)
	o.Password, passwordErr = url.PathUnescape(password)
	if nameErr != nil || passwordErr != nil || name != "" && !both {
		return nil, errRedisUser
	}

	port := "6379"
	if sentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := hostPort(host, port)
		if err != nil {
			return nil, err
		}
		o.Addrs = append(o.Addrs, addr)
	}
	if len(o.Addrs) > 1 && !cluster && !sentinel {
		return nil, errRedisHost
	}

	if cluster && path != "" {
		return nil, errRedisPath
	}
	if sentinel {
		master, db, _ := strings.Cut(path, "/")
		var err error
		if o.MasterName, err = url.PathUnescape(master); err != nil || o.MasterName == "" {
			return nil, errRedisMaster
		}
		path = db
	}
	if path != "" {
		db, err := strconv.ParseUint(path, 10, 16)
		if err != nil {
			return nil, errRedisDB
		}
		o.DB = int(db)
	}

	values, err := url.ParseQuery(query)
	if sentinel {
		o.SentinelUsername, o.SentinelPassword = values.Get("sentinel_username"), values.Get("sentinel_password")
		values.Del("sentinel_username")
		values.Del("sentinel_password")
	}
	if err != nil || len(values) > 0 {
		return nil, errRedisQuery
	}
	return o, nil
}

// hostPort adds the default port to "host" or "[::1]", and returns "host:port" or "[::1]:port" as it is.
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
