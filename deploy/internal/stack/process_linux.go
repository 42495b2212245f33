package stack

import (
	"runtime"
	"syscall"
)

// ownGroup keeps Ctrl-C at the terminal from the program, which Stop stops, and
// has the kernel end it when this process dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onOwnThread runs f on a thread that runs nothing else and ends with it.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	f()
}
