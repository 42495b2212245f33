package translog

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTimeout bounds the read of the store for a scrape.
const scrapeTimeout = time.Second

// metrics reports how the log stands, read at every scrape.
type metrics struct {
	*Log

	size, published, queueAge, setAside, publishedAge, frozen, witnessAge, witnessErrors, auditOK,
	auditAge *prometheus.Desc
}

// Register adds the metrics of the log.
func (l *Log) Register(r prometheus.Registerer) error {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return r.Register(&metrics{
		Log:       l,
		size:      desc("verifier_log_size", "Entries of the log of receipts."),
		published: desc("verifier_log_published_size", "Entries of the checkpoint of the log that is served."),
		queueAge: desc("verifier_log_queue_age_seconds", "How long the oldest queued entry waits for its place "+
			"in the log; 0 without one."),
		setAside: desc("verifier_log_set_aside", "What was queued for the log and is no entry of it; it waits "+
			"for an operator."),
		publishedAge: desc("verifier_log_published_age_seconds", "Age of the checkpoint of the log that is served."),
		frozen: desc("verifier_log_frozen", "1 while the log signs nothing until an operator has decided, "+
			"by reason.", "why"),
		witnessAge: desc("verifier_log_witness_age_seconds", "How long ago this process last had a cosignature of "+
			"a witness, by name; absent before the first.", "name"),
		witnessErrors: desc("verifier_log_witness_errors_total",
			"Requests to a witness that brought no cosignature, by name.", "name"),
		auditOK: desc("verifier_log_audit_ok", "1 when the last audit of the log was clean; absent before the first."),
		auditAge: desc("verifier_log_audit_age_seconds", "How long ago this process last audited the log; absent "+
			"before the first."),
	})
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.size, m.published, m.queueAge, m.setAside, m.publishedAge, m.frozen, m.witnessAge, m.witnessErrors, m.auditOK,
		m.auditAge,
	} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	now := m.Now()
	if at, ok := m.LastAudit(); !at.IsZero() {
		gauge(m.auditOK, boolValue(ok))
		gauge(m.auditAge, now.Sub(at).Seconds())
	}
	s, err := m.stored(ctx)
	if err != nil {
		return // verifier_store_up reports it
	}
	gauge(m.size, float64(s.Size))
	gauge(m.published, float64(s.Published))
	var waiting, age float64
	if !s.Oldest.IsZero() {
		waiting = now.Sub(s.Oldest).Seconds()
	}
	if !s.At.IsZero() {
		age = now.Sub(s.At).Seconds()
	}
	gauge(m.queueAge, waiting)
	gauge(m.setAside, float64(s.SetAside))
	gauge(m.publishedAge, age)
	for _, why := range []string{FrozenRestored, FrozenBehind, FrozenFork, FrozenMark, FrozenNoMark} {
		gauge(m.frozen, boolValue(s.Frozen == why), why)
	}
	for _, w := range s.Witnesses {
		if !w.Seen.IsZero() {
			gauge(m.witnessAge, now.Sub(w.Seen).Seconds(), w.Name)
		}
		all <- prometheus.MustNewConstMetric(m.witnessErrors, prometheus.CounterValue, float64(w.Errors), w.Name)
	}
}

func boolValue(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
