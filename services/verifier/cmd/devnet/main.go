// Command devnet runs a development chain that has a USD token, an x402 facilitator for it and, with
// BEACON_ADDR, a beacon node.
package main

import (
	"github.com/pforte/pforte/pkg/service"
	"github.com/pforte/pforte/services/verifier/internal/devnet"
)

// version is set by the linker.
var version string

func main() { service.Main(version, devnet.Run) }
