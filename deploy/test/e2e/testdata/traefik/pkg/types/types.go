// Package types has what the copied files use of Traefik's package types.
package types

import (
	"context"
	"crypto/tls"
	"errors"
)

// ClientTLS is not used here.
type ClientTLS struct {
	CA, Cert, Key      string
	InsecureSkipVerify bool
}

// CreateTLSConfig returns an error.
func (*ClientTLS) CreateTLSConfig(context.Context) (*tls.Config, error) {
	return nil, errors.New("there is no TLS here")
}
