// Command generate writes the built-in catalogue of models from the data that
// pi publishes under the MIT license:
//
//	npm pack @earendil-works/pi-ai@1.6.0
//	go run ./providers/catalog/generate -from earendil-works-pi-ai-1.6.0.tgz
//
// The package has one JSON file per provider in dist/providers/data, with a
// manifest of checksums. Only that data and the manifest are read. Everything
// that troupe changes about a provider is in the table of providers.go.
package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	from := flag.String("from", "", "the package: a .tgz written by npm pack")
	out := flag.String("out", filepath.Join("providers", "catalog"), "the directory of the catalogue")
	flag.Parse()
	if err := generate(*from, *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// source is the head of each generated file: where its data is from.
type source struct {
	Package string `json:"package"`
	Version string `json:"version"`
	License string `json:"license"`
	Date    string `json:"date"` // when the package's data was made
}

func generate(from, dir string) error {
	files, err := unpack(from)
	if err != nil {
		return err
	}
	origin, lists, err := open(files)
	if err != nil {
		return err
	}
	for provider := range lists {
		if _, known := endpoints[provider]; !known && !slices.Contains(leftOut, provider) {
			return fmt.Errorf("provider %s is new: add it to endpoints, or to leftOut with a decision record", provider)
		}
	}
	for provider, at := range endpoints {
		list := lists[provider]
		if len(list) == 0 {
			return fmt.Errorf("provider %s has no models any more", provider)
		}
		text, err := encode(origin, at, list)
		if err != nil {
			return fmt.Errorf("provider %s: %w", provider, err)
		}
		if err := os.WriteFile(filepath.Join(dir, provider+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// unpack reads the files of a package that generate needs, by their path in it.
func unpack(name string) (map[string][]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if path.Ext(h.Name) != ".json" {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(h.Name, "package/")] = text
	}
}

const dataDir = "dist/providers/data/"

// open returns the chat models by provider, in the order of their names. It
// checks the data against the manifest.
func open(files map[string][]byte) (source, map[string][]model, error) {
	var about struct{ Name, Version, License string }
	var manifest struct {
		GeneratedAt string
		Files       map[string]string
	}
	if err := errors.Join(json.Unmarshal(files["package.json"], &about), json.Unmarshal(files[dataDir+".manifest.json"], &manifest)); err != nil {
		return source{}, nil, fmt.Errorf("not a package with models: %w", err)
	}
	if about.License != "MIT" || len(manifest.GeneratedAt) < len("2006-01-02") {
		return source{}, nil, fmt.Errorf("license %q, date %q", about.License, manifest.GeneratedAt)
	}
	lists := map[string][]model{}
	for name, sum := range manifest.Files {
		text := files[dataDir+name]
		if have := sha256.Sum256(text); hex.EncodeToString(have[:]) != sum {
			return source{}, nil, fmt.Errorf("%s does not match the manifest", name)
		}
		var byAPI map[string]map[string]model
		if err := json.Unmarshal(text, &byAPI); err != nil {
			return source{}, nil, fmt.Errorf("%s: %w", name, err)
		}
		var list []model
		for _, models := range byAPI {
			for _, m := range models {
				if m.Type == "chat" {
					list = append(list, m)
				}
			}
		}
		slices.SortFunc(list, func(a, b model) int { return strings.Compare(a.ID, b.ID) })
		lists[strings.TrimSuffix(name, ".json")] = list
	}
	return source{about.Name, about.Version, about.License, manifest.GeneratedAt[:len("2006-01-02")]}, lists, nil
}
