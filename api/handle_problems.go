package api

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"sluice/api/pages"
	"sluice/api/reply"
)

// problemType is the schema ProblemKind of openapi.yaml.
type problemType struct {
	Name    string          `json:"name"`
	Type    string          `json:"type"`
	Title   string          `json:"title"`
	Status  int             `json:"status"`
	Meaning string          `json:"meaning"`
	Cause   string          `json:"cause"`
	Action  string          `json:"action"`
	Example json.RawMessage `json:"example"`
}

// problemPage serves what a kind of problem means, to browsers as a page.
func (s *Server) problemPage(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Vary", "Accept")
	d := reply.Find(c.Param("name"))
	if d == nil {
		return reply.NotFound.Problem("There is no problem type of this name. The schemas Problem and Denial in " +
			"GET /openapi.yaml list every type.")
	}
	if !prefersHTML(c.Request().Header["Accept"]) {
		h.Set("Cache-Control", pageLife)
		return writeJSON(c, http.StatusOK, problemType{d.Name, d.Type, d.Title, d.Status, d.Meaning, d.Cause, d.Action,
			json.RawMessage(d.Example)})
	}
	return servePage(c, pages.Problems, d.Name)
}

// referencePage serves a page of the reference of the API.
func (s *Server) referencePage(c echo.Context) error {
	return servePage(c, pages.Reference, c.Param("name"))
}

// pageLife is how long a page may be kept: a later build may have another.
const pageLife = "public, max-age=3600"

// servePage serves one page of all, which are made at the first request.
func servePage(c echo.Context, all func() (map[string][]byte, error), name string) error {
	made, err := all()
	if err != nil {
		return err
	}
	page, ok := made[name]
	if !ok {
		return reply.NotFound.Problem("The reference has no page of this name. GET /docs lists its pages.")
	}
	h := c.Response().Header()
	h.Set("Cache-Control", pageLife)
	pages.SetHeaders(h)
	return write(c, http.StatusOK, []string{"text/html; charset=utf-8"}, page)
}

// prefersHTML reports whether the values of Accept give HTML a higher quality than JSON.
func prefersHTML(accept []string) bool {
	var html, plain quality
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		html.take(media, "text", "html", q)
		plain.take(media, "application", "json", q)
	}
	return html.q > plain.q
}

// quality is the preference for a media type: the most specific range that matches it decides.
type quality struct {
	q        float64
	specific int
}

func (best *quality) take(media, kind, sub string, q float64) {
	for i, match := range []string{"*/*", kind + "/*", kind + "/" + sub} {
		if media == match && i+1 > best.specific {
			*best = quality{q, i + 1}
		}
	}
}
