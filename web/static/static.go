// Package static holds the assets of the console: style sheets, scripts, and third-party
// files, which are under vendor with their licenses. They are embedded; nothing is built or fetched.
//
// A file is served under a name with a hash of its content, such as
// /console/static/app.9f86d081.css, so that browsers can keep it forever. A style sheet names
// other files of this folder as url("name").
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
	"regexp"
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
	// Body is uncompressed. Packed is compressed with gzip, nil if that is not smaller.
	Body, Packed []byte
}

var types = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	".woff2": "font/woff2",
}

// assets are keyed by request path, urls by file name.
var assets, urls = load()

func load() (map[string]Asset, map[string]string) {
	byPath, byName := map[string]Asset{}, map[string]string{}
	add := func(name string, body []byte) {
		sum := sha256.Sum256(body)
		ext := path.Ext(name)
		url := Root + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		byPath[url], byName[name] = Asset{Type: types[ext], Body: body, Packed: pack(body)}, url
	}
	sheets := map[string][]byte{} // they name other files, so their names come last
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || types[path.Ext(name)] == "" {
			return err
		}
		body, err := files.ReadFile(name)
		if path.Ext(name) == ".css" {
			sheets[name] = body
		} else {
			add(name, body)
		}
		return err
	})
	if err != nil {
		panic(err) // embedded files are always there
	}
	for name, body := range sheets {
		add(name, named.ReplaceAllFunc(body, func(of []byte) []byte {
			url, ok := byName[string(named.FindSubmatch(of)[1])]
			if !ok {
				panic(fmt.Sprintf("static: %s names %s, which does not exist", name, of))
			}
			return []byte(`url("` + strings.TrimPrefix(url, Root) + `")`)
		}))
	}
	return byPath, byName
}

// named is a file of this folder in a style sheet.
var named = regexp.MustCompile(`url\("([a-z0-9/.-]+)"\)`)

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

// URL is the URL of a file in this folder, such as app.css. It panics if the file does
// not exist, which is a mistake in a template.
func URL(name string) string {
	url, ok := urls[name]
	if !ok {
		panic(fmt.Sprintf("static: no file %q", name))
	}
	return url
}

// Find returns the file at a path.
func Find(urlPath string) (Asset, bool) {
	a, ok := assets[urlPath]
	return a, ok
}
