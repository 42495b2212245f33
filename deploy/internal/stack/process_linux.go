package stack

import "syscall"

// ownGroup keeps Ctrl-C at the terminal from the program, which Stop stops, and
// has the kernel end it when this process dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
