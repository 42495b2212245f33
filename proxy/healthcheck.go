package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// healthcheck is the health check of a container, where there is no shell. It
// returns caddy.ExitCodeSuccess when the proxy on this machine runs.
func healthcheck(caddycmd.Flags) (int, error) {
	port := os.Getenv("ADMIN_PORT")
	host, _, _ := strings.Cut(os.Getenv("ADMIN_BIND"), " ") // the first of several
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "9080"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := checkHealth(ctx, net.JoinHostPort(host, port)); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	return caddy.ExitCodeSuccess, nil
}

// checkHealth returns an error unless the proxy answers 200 at its internal address.
func checkHealth(ctx context.Context, addr string) error {
	url := "http://" + addr + "/livez"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // the operator's own setting
	if err != nil {
		return fmt.Errorf("check the proxy: %w", err)
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("check the proxy: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the proxy answers %s", resp.Status)
	}
	return nil
}
