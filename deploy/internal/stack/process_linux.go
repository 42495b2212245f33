package stack

import "syscall"

// ownGroup returns attributes that keep Ctrl-C at the terminal from the program, which
// Stop stops, and have the kernel end it when this process dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
