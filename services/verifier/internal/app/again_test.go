package app

import (
	"testing"

	"github.com/pforte/pforte/pkg/sqldb/sqldbtest"
)

func TestPurchase_ByDefaultAQuestionIsPaidOnce(t *testing.T) {
	sqldbtest.Each(t, func(t *testing.T, database string) {
		w := newWorld(t, database)
		delete(w.env, "REPEAT_WINDOW")
		one := w.run()
		w.wantReceipt(w.post(one.url, w.pay("1")))
		w.wantReceipt(w.post(one.url, w.pay("2")))
		two, _ := w.spawn("never") // another process
		w.wantReceipt(w.post(two, w.pay("3")))
		w.wantTransfers(1)
	})
}
