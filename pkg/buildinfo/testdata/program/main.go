// Command program prints its version, as every program of Pforte does.
package main

import (
	"fmt"

	"github.com/pforte/pforte/pkg/buildinfo"
)

// version is set by the linker.
var version string

func main() { fmt.Println(buildinfo.Version(version)) }
