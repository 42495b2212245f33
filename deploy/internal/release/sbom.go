package release

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// SBOM lists modules as CycloneDX JSON.
func SBOM(modules []Module, version string, at time.Time) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: at.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "pforte", Type: cyclonedx.ComponentTypeApplication, Name: "pforte", Version: version,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}, // that of LICENSE
		},
	}
	components := make([]cyclonedx.Component, 0, len(modules))
	for _, m := range modules {
		components = append(components, m.component())
	}
	bom.Components = &components
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON)
	err := encoder.SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return text.Bytes(), err
}

func (m Module) component() cyclonedx.Component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := cyclonedx.Component{BOMRef: purl, PackageURL: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version}
	// Go's sum is the SHA-256 of the module's list of files with their sums.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	}
	var licences cyclonedx.Licenses
	for _, id := range m.ids() {
		licences = append(licences, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	c.Licenses = &licences
	return c
}

// ids are the licences of a module, each once.
func (m Module) ids() []string {
	var ids []string
	for _, l := range m.Licences {
		if l.ID != "" && !strings.Contains(strings.Join(ids, " "), l.ID) {
			ids = append(ids, l.ID)
		}
	}
	return ids
}
