// Command program prints its version.
package main

import (
	"fmt"

	"github.com/pforte/pforte/pkg/buildinfo"
)

// version is set by the linker.
var version string

func main() { fmt.Println(buildinfo.Version(version)) }
