package session

import (
	"cmp"
	"time"
)

// Device says whose device a login is on, as its user said. It decides how long the session lasts without activity.
type Device string

// The devices.
const (
	AnyDevice    Device = ""       // the user did not say; also of sessions of an earlier version
	OwnDevice    Device = "own"    // remembered
	SharedDevice Device = "shared" // of several people: the cookies end with the browser
)

// DeviceOf returns the device of a login by what its user said; nil: they said nothing.
func DeviceOf(remember *bool) Device {
	switch {
	case remember == nil:
		return AnyDevice
	case *remember:
		return OwnDevice
	}
	return SharedDevice
}

// Remember is the inverse of DeviceOf.
func (d Device) Remember() *bool {
	if d == AnyDevice {
		return nil
	}
	own := d == OwnDevice
	return &own
}

// Lifetimes without activity.
const (
	// RememberLifetime is the lifetime of sessions on a device of the user's own, or SESSION_LIFETIME if that is more,
	// unless REMEMBER_LIFETIME is set.
	RememberLifetime = 30 * 24 * time.Hour
	// SharedLifetime is the lifetime of sessions on a device of several people, or SESSION_LIFETIME
	// if that is less.
	SharedLifetime = 12 * time.Hour
)

// Lifetimes are how long sessions last without activity, by their devices. With the zero value Store.Load reads a
// session and does not renew it.
type Lifetimes struct{ Any, Own, Shared time.Duration }

// NewLifetimes returns the lifetimes for SESSION_LIFETIME (whole) and REMEMBER_LIFETIME (remembered), each of which may
// be zero for its default.
func NewLifetimes(whole, remembered time.Duration) Lifetimes {
	whole = cmp.Or(whole, Lifetime)
	return Lifetimes{
		Any: whole, Own: cmp.Or(remembered, max(whole, RememberLifetime)), Shared: min(whole, SharedLifetime),
	}
}

// Of returns the lifetime of sessions on a device.
func (l Lifetimes) Of(d Device) time.Duration {
	switch d {
	case OwnDevice:
		return l.Own
	case SharedDevice:
		return l.Shared
	}
	return l.Any
}
