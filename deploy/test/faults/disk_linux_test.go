package faults

import (
	"os"
	"runtime"
	"slices"
	"syscall"
)

// ownDisks is whether this process may mount: it is root.
var ownDisks = os.Geteuid() == 0

// inOwnMounts begins this program again where its mounts are not seen by others and
// end with it.
func inOwnMounts() error {
	const mark = "PFORTE_CHAOS_OWN_MOUNTS=yes"
	if !ownDisks || slices.Contains(os.Environ(), mark) {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // which the new program will be
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), mark))
}

func mountDisk(path string) error {
	if !ownDisks {
		return nil
	}
	return syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=0700,size="+diskSize)
}

func unmountDisk(path string) {
	if ownDisks {
		_ = syscall.Unmount(path, syscall.MNT_DETACH)
	}
}
