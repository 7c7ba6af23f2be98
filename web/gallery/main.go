// Command gallery writes every page of the console, with canned data, to a
// folder, and pictures of them: light, dark and on a phone. make gallery and make
// pictures run it.
package main

import (
	"flag"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/chromedp/chromedp"

	"sluice/web/browsertest"
	"sluice/web/static"
	"sluice/web/webtest"
)

func main() {
	out := flag.String("out", "gallery", "folder to write pages to")
	pictures := flag.String("pictures", "", "folder to write pictures to as well")
	only := flag.String("only", "", "write only pages whose name contains this")
	flag.Parse()
	if err := run(os.Stdout, *out, *pictures, *only); err != nil {
		fmt.Fprintln(os.Stderr, "gallery:", err)
		os.Exit(1)
	}
}

func run(said io.Writer, out, pictures, only string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var shown []webtest.Shown
	var index strings.Builder
	index.WriteString("<!doctype html><meta charset=utf-8><title>Sluice: gallery</title><h1>Gallery</h1><ul>\n")
	for _, s := range webtest.Gallery() {
		if !strings.Contains(s.Name, only) {
			continue
		}
		page, err := s.Visit()
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := write(out, s.Name+".html", page.Body); err != nil {
			return err
		}
		shown = append(shown, s)
		fmt.Fprintf(&index, "<li><a href=%q>%s</a> (%d)\n", s.Name+".html", html.EscapeString(s.About), page.Code)
	}
	if err := os.WriteFile(filepath.Join(out, "index.html"), []byte(index.String()+"</ul>\n"), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(said, "%d pages in %s\n", len(shown), out)
	if pictures == "" {
		return nil
	}
	return picture(said, out, pictures, shown)
}

var (
	assetPath = regexp.MustCompile(regexp.QuoteMeta(static.Root) + `[^"]+`)
	// inSheet is a file that a style sheet names.
	inSheet = regexp.MustCompile(`url\("([^"]+)"\)`)
)

// write stores a page and the assets it names, so that it opens from the disk.
func write(out, name, body string) error {
	paths := assetPath.FindAllString(body, -1)
	for i := 0; i < len(paths); i++ {
		path := paths[i]
		a, ok := static.Find(path)
		if !ok {
			return fmt.Errorf("%s names %s, which is not served", name, path)
		}
		if strings.HasSuffix(path, ".css") {
			for _, m := range inSheet.FindAllSubmatch(a.Body, -1) {
				paths = append(paths, static.Root+string(m[1]))
			}
		}
		file := filepath.Join(out, filepath.FromSlash(strings.TrimPrefix(path, "/")))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, a.Body, 0o644); err != nil {
			return err
		}
	}
	body = strings.ReplaceAll(body, static.Root, strings.TrimPrefix(static.Root, "/"))
	return os.WriteFile(filepath.Join(out, name), []byte(body), 0o644)
}

// looks are how each page is pictured.
var looks = []struct {
	suffix        string
	width, height int64
	dark          bool
}{
	{"light", 1440, 900, false}, {"dark", 1440, 900, true}, {"phone", 390, 780, false},
	{"wide", 1920, 1080, false}, {"phone-dark", 390, 780, true},
}

func picture(said io.Writer, out, pictures string, shown []webtest.Shown) error {
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	files := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer files.Close()
	browser, err := browsertest.Start()
	if err != nil {
		return err
	}
	defer browser.Close()
	for _, s := range shown {
		for _, look := range looks {
			name := filepath.Join(pictures, s.Name+"-"+look.suffix+".png")
			if err := one(browser, files.URL+"/"+s.Name+".html", name, look.width, look.height, look.dark); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	fmt.Fprintf(said, "pictures in %s\n", pictures)
	return nil
}

func one(browser *browsertest.Browser, url, name string, width, height int64, dark bool) error {
	tab, err := browser.Open()
	if err != nil {
		return err
	}
	defer tab.Close()
	if err := tab.Show(width, height, dark); err != nil {
		return err
	}
	if err := chromedp.Do(tab.Ctx, chromedp.Navigate(url)); err != nil {
		return err
	}
	png, err := tab.Picture()
	if err != nil {
		return err
	}
	return os.WriteFile(name, png, 0o644)
}
