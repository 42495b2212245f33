// Package buildinfo returns the version of a program.
package buildinfo

import (
	"cmp"
	"runtime/debug"
)

// Version returns the version of the running program, never "": linked, where the
// linker set it (-ldflags "-X main.version=v1.2.3", as make, the Dockerfile and a
// release do); else that of the main module in runtime/debug.BuildInfo, which is
// "(devel)" for a build that knows neither a version nor a commit; else "(unknown)".
func Version(linked string) string {
	noted, _ := debug.ReadBuildInfo()
	return choose(linked, noted)
}

func choose(linked string, noted *debug.BuildInfo) string {
	if noted != nil {
		linked = cmp.Or(linked, noted.Main.Version)
	}
	return cmp.Or(linked, "(unknown)")
}
