//go:build !linux

package stack

import "syscall"

// ownGroup keeps Ctrl-C at the terminal from the program, which is stopped in
// its turn.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func onOwnThread(f func()) { f() }
