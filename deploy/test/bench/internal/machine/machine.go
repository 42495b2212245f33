package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// Describe says what this machine is, on one line.
func Describe() string {
	return fmt.Sprintf("%s, %d cores, %s of memory, Linux %s, %s",
		orUnknown(after("/proc/cpuinfo", "model name")), runtime.NumCPU(), memory(), orUnknown(first("/proc/sys/kernel/osrelease")), runtime.Version())
}

// Version gives the first line that a program prints about its version.
func Version(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output() //nolint:gosec // what the caller says
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

func memory() string {
	kilobytes, err := strconv.Atoi(strings.TrimSuffix(after("/proc/meminfo", "MemTotal"), " kB"))
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%d GB", (kilobytes+512<<10)>>20)
}

// after gives what follows the first "name:" of a file.
func after(path, name string) string {
	text, err := os.ReadFile(path) //nolint:gosec // a file of the kernel
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func first(path string) string {
	text, err := os.ReadFile(path) //nolint:gosec // a file of the kernel
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
