package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownDisks is whether this process may mount: it is root.
var ownDisks = os.Geteuid() == 0

// inOwnMounts runs this program again where its mounts are seen by nobody else
// and end with it. It tells whether that is done.
func inOwnMounts() (bool, error) {
	const mark = "PFORTE_CHAOS_OWN_MOUNTS"
	if !ownDisks || os.Getenv(mark) != "" {
		return false, nil
	}
	self, err := os.Executable()
	if err != nil {
		return true, err
	}
	again := exec.Command(self, os.Args[1:]...) //nolint:gosec,noctx // this program; it listens to signals itself
	again.Env = append(os.Environ(), mark+"=yes")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err = again.Run(); err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			os.Exit(1) // it has said why
		}
	}
	return true, err
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
