package app

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pforte/pforte/services/auth/internal/password"
)

// newRegistry returns a registry with what every Go process can say of itself.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// registerPasswords adds the load of the password hasher.
func registerPasswords(r prometheus.Registerer, h *password.Hasher) error {
	return errors.Join(
		r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "auth_passwords_computing", Help: "Password hashes being computed.",
		}, func() float64 { return float64(h.Stats().Computing) })),
		r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "auth_passwords_waiting", Help: "Passwords waiting to be computed.",
		}, func() float64 { return float64(h.Stats().Waiting) })),
		r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "auth_passwords_refused_total", Help: "Passwords refused because too many were waiting.",
		}, func() float64 { return float64(h.Stats().Refused) })),
	)
}
