package checkpage_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/pforte/pforte/services/verifier/internal/checkpage"
)

const html = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<script type="application/json" id="site">null</script>`

func compress(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestPage_WhatASitePublishesCannotEndItsElement(t *testing.T) {
	page, policy, err := checkpage.Make(compress(t, html), checkpage.Site{Name: "</script><script>alert(1)</script>", Policy: "<!--"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(page), "<script") != 1 || strings.Contains(string(page), "<!--") {
		t.Errorf("%s", page)
	}
	if policy != "default-src 'none'" {
		t.Errorf("the policy is %s", policy)
	}
}

func TestPage_IsServedAndNothingElse(t *testing.T) {
	for name, built := range map[string][]byte{
		"not compressed": []byte(html), "no policy": compress(t, strings.Replace(html, "Security", "", 1)),
		"no place for the site": compress(t, strings.Replace(html, "null", "", 1)), "two places": compress(t, html+html),
		"cut off": compress(t, html)[:40],
	} {
		if _, _, err := checkpage.Make(built, checkpage.Site{}); err == nil {
			t.Errorf("%s: it is served", name)
		}
	}
}
