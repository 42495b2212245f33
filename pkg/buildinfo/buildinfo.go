package buildinfo

import "runtime/debug"

// unknown is the version of a program of which the build said nothing.
const unknown = "(unknown)"

// Version gives the version of the program that runs, never empty. It is linked
// where the linker set that (-ldflags "-X main.version=v1.2.3", which make, the
// Dockerfile and a release do). Otherwise it is what the Go command noted of the
// main module (runtime/debug.BuildInfo): the version that `go install
// module@version` fetched, or "(devel)" for a build from a folder. Otherwise it
// is "(unknown)".
func Version(linked string) string {
	noted, _ := debug.ReadBuildInfo()
	return choose(linked, noted)
}

func choose(linked string, noted *debug.BuildInfo) string {
	switch {
	case linked != "":
		return linked
	case noted != nil && noted.Main.Version != "":
		return noted.Main.Version
	default:
		return unknown
	}
}
