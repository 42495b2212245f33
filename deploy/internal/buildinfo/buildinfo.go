// Package buildinfo tells which version of Pforte a program is.
package buildinfo

import "runtime/debug"

// Version gives what the linker set, or what Go noted itself where it set
// nothing.
func Version(linked string) string {
	if info, ok := debug.ReadBuildInfo(); ok && linked == "" {
		return info.Main.Version
	}
	return linked
}
