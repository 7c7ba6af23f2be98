// Package static holds the files that the console's pages load: one stylesheet,
// one script, and what others wrote, each in its folder under vendor with its
// licence. They are embedded; nothing is built or fetched.
//
// A file is served under a name that carries a hash of its content, as in
// /console/static/app.9f86d081.css, so browsers keep it for ever.
package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.css *.js *.svg vendor
var files embed.FS

// Root is the path under which the files are served.
const Root = "/console/static/"

// Asset is one file.
type Asset struct {
	// Type is its Content-Type.
	Type string
	// Body is as it is, Packed by gzip, nil if that gains nothing.
	Body, Packed []byte
}

var types = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// assets are by the path that is asked for, urls by the file's name.
var assets, urls = load()

func load() (map[string]Asset, map[string]string) {
	byPath, byName := map[string]Asset{}, map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		kind := types[path.Ext(name)]
		if err != nil || entry.IsDir() || kind == "" {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(name)
		url := Root + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		byPath[url], byName[name] = Asset{Type: kind, Body: body, Packed: pack(body)}, url
		return nil
	})
	if err != nil {
		panic(err) // embedded files are always there
	}
	return byPath, byName
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil
	}
	if _, err := z.Write(body); err != nil {
		return nil
	}
	if z.Close() != nil || b.Len() >= len(body) {
		return nil
	}
	return b.Bytes()
}

// URL is where a file is served, by its name in this folder, such as app.css. A
// name that does not exist is a mistake in a template and panics.
func URL(name string) string {
	url, ok := urls[name]
	if !ok {
		panic(fmt.Sprintf("static: no file %q", name))
	}
	return url
}

// Find gives the file served at a path.
func Find(urlPath string) (Asset, bool) {
	a, ok := assets[urlPath]
	return a, ok
}
