package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image is a container image with several programs. Each container names the one of them that it runs.
type image struct {
	name     string
	programs []string
	// file is the compose file that runs it.
	file string
}

var images = []image{
	{"pforte", []string{"auth", "pforte-proxy", "setup", "backup"}, "compose.household.yml"},
	{"pforte-evidence", []string{"verifier", "receipt"}, "compose.evidence.yml"},
}

// user is the user id that the programs run as.
const user = 65532

// folders are the folders that user owns. A new volume that is mounted at one is owned by user too.
var folders = []string{
	"backups", "data", "ledger", "secrets", "secrets/auth", "secrets/redis", "secrets/users", "secrets/verifier", "tmp",
	"users",
}

// devel returns how the compose files name an image that was built here: no registry has it.
func (i image) devel() string { return "localhost/" + i.name + ":devel" }

// The parts of an image, as the specification of OCI has them.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Platform    *platform         `json:"platform,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	platform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	manifest struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Config        *descriptor       `json:"config,omitempty"`
		Layers        []descriptor      `json:"layers,omitempty"`
		Manifests     []descriptor      `json:"manifests,omitempty"`
		Annotations   map[string]string `json:"annotations,omitempty"`
	}
	configuration struct {
		Created string `json:"created"`
		platform
		Config struct {
			User       string            `json:"User"`
			Env        []string          `json:"Env"`
			WorkingDir string            `json:"WorkingDir"`
			Labels     map[string]string `json:"Labels"`
		} `json:"config"`
		RootFS struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
)

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// layout is an OCI layout that is being made: its files by name.
type layout map[string][]byte

func (l layout) add(mediaType string, content []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	l["blobs/sha256/"+sum] = content
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}
}

func (l layout) addJSON(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	return l.add(mediaType, content), err
}

// layer returns the layer of files and of folders that user owns, compressed, and its diffID: the
// SHA-256 of the layer before it is compressed.
func (o options) layer(files map[string][]byte, owned []string) (content []byte, diffID string, err error) {
	var plain bytes.Buffer
	archive := tar.NewWriter(&plain)
	made := map[string]bool{".": true}
	write := func(h *tar.Header, content []byte) {
		h.ModTime, h.Format = o.at, tar.FormatUSTAR
		err = errors.Join(err, archive.WriteHeader(h))
		_, failed := archive.Write(content)
		err = errors.Join(err, failed)
	}
	var above func(name string)
	above = func(name string) {
		if folder := path.Dir(name); !made[folder] {
			above(folder)
			made[folder] = true
			write(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		above(name)
		mode := int64(0o644)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o755
		}
		write(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: mode}, files[name])
	}
	for _, name := range owned {
		mode := int64(0o755)
		if name == "tmp" {
			mode = 0o1777 // a tmpfs that is mounted there takes over this mode
		}
		write(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: user, Gid: user}, nil)
	}
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	_, err = compressed.Write(plain.Bytes())
	err = errors.Join(err, compressed.Close())
	return out.Bytes(), fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes())), err
}

// authorities returns the certificates, as PEM, of the authorities that browsers trust without a
// constraint.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // never fails
		}
	}
	return text.Bytes()
}

// variant is an image for one platform, and the files of its parts.
type variant struct {
	descriptor
	config string
	layers []string
}

// addVariant adds an image for the platform on, such as "linux_amd64", to l.
func (o options) addVariant(l layout, i image, on string, modules []module) (v variant, err error) {
	var c configuration
	c.OS, c.Architecture, _ = strings.Cut(on, "_")
	c.Created, c.RootFS.Type = o.at.Format("2006-01-02T15:04:05Z"), "layers"
	c.Config.User = fmt.Sprintf("%d:%d", user, user)
	c.Config.Env = []string{"PATH=/bin", "HOME=/data", "XDG_DATA_HOME=/data", "XDG_CONFIG_HOME=/data"}
	c.Config.WorkingDir = "/"
	c.Config.Labels = o.labels()
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Annotations: o.labels()}
	put := func(files map[string][]byte, owned []string) error {
		content, diffID, err := o.layer(files, owned)
		added := l.add(typeLayer, content)
		m.Layers, c.RootFS.DiffIDs = append(m.Layers, added), append(c.RootFS.DiffIDs, diffID)
		v.layers = append(v.layers, blob(added))
		return err
	}
	base := licenceFiles(modules)
	base["etc/passwd"] = fmt.Appendf(nil, "pforte:x:%d:%d::/data:/sbin/nologin\n", user, user)
	base["etc/ssl/certs/ca-certificates.crt"] = authorities()
	if base["LICENSE"], err = os.ReadFile(filepath.Join(o.top, "LICENSE")); err != nil {
		return v, err
	}
	if err := put(base, folders); err != nil {
		return v, err
	}
	for _, program := range i.programs {
		content, err := os.ReadFile(filepath.Join(o.built, on, program)) //nolint:gosec // just built
		if err == nil {
			err = put(map[string][]byte{"bin/" + program: content}, nil)
		}
		if err != nil {
			return v, err
		}
	}
	configured, err := l.addJSON(typeConfig, c)
	if err != nil {
		return v, err
	}
	m.Config, v.config = &configured, blob(configured)
	v.descriptor, err = l.addJSON(typeManifest, m)
	v.Platform = &c.platform
	return v, err
}

// blob returns the path, in the layout, of what a descriptor describes.
func blob(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }

func (o options) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.source":   "https://github.com/pforte/pforte",
		"org.opencontainers.image.version":  o.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// addImage writes an image for all platforms into files, and unless local its SBOM, reference and
// compose file. It does nothing where the first of its programs was not built.
func (o options) addImage(i image, platforms []string, files map[string][]byte) error {
	var programs []string
	for _, on := range platforms {
		for _, program := range i.programs {
			programs = append(programs, filepath.Join(o.built, on, program))
		}
	}
	if len(programs) == 0 {
		return nil
	}
	if _, err := os.Stat(programs[0]); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	modules, err := modulesIn(programs, o.cache, o.root)
	if err != nil {
		return err
	}
	l, all := layout{}, manifest{SchemaVersion: 2, MediaType: typeIndex, Annotations: o.labels()}
	var last variant
	for _, on := range platforms {
		if last, err = o.addVariant(l, i, on, modules); err != nil {
			return fmt.Errorf("%s for %s: %w", i.name, on, err)
		}
		all.Manifests = append(all.Manifests, last.descriptor)
	}
	index, err := l.addJSON(typeIndex, all)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s_%s_image", i.name, o.version)
	reference := fmt.Sprintf("%s/%s:%s@%s", o.registry, i.name, o.version, index.Digest)
	if o.local {
		reference = i.devel()
		// What docker load reads, one platform at a time.
		saved := []any{map[string]any{"Config": last.config, "RepoTags": []string{reference}, "Layers": last.layers}}
		if l["manifest.json"], err = json.Marshal(saved); err != nil {
			return err
		}
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": o.version}
	top, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{index}})
	if err != nil {
		return err
	}
	l["index.json"], l["oci-layout"] = top, []byte(`{"imageLayoutVersion":"1.0.0"}`)
	if files[name+".tar"], err = tarOf("", l, o.at); err != nil || o.local {
		return err
	}
	if files[name+".cdx.json"], err = sbom(modules, o.version, o.at); err != nil {
		return err
	}
	files[i.name+".ref"] = []byte(reference + "\n")
	files[i.file], err = o.composed(i, reference)
	return err
}

// composed returns the compose file of an image with the reference of what is released.
func (o options) composed(i image, reference string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(o.top, "deploy", i.file))
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(text, []byte(i.devel())) {
		return nil, fmt.Errorf("%s does not run %s", i.file, i.devel())
	}
	return bytes.ReplaceAll(text, []byte(i.devel()), []byte(reference)), nil
}
