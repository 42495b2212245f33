//go:build !linux

package stack

import "syscall"

// ownGroup returns attributes that keep Ctrl-C at the terminal from the program, which Stop stops.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
