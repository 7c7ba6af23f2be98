package echolimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/client"
	"sluice/api/client/httplimit"
	"sluice/api/client/httplimit/echolimit"
)

// service stands in for Sluice: it allows one request for a user.
func service() *httptest.Server {
	var asked atomic.Bool
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const expected = `{"method":"GET","route":"/users/{id}","host":"example.com","ip":"192.0.2.1",` +
			`"attributes":{"host":"example.com"}}`
		check, _ := io.ReadAll(r.Body)
		answer := `{"allowed":false,"status":429,"headers":{"Retry-After":"60"},"body":{"status":429}}`
		if string(check) == expected && !asked.Swap(true) {
			answer = `{"allowed":true,"status":200,"headers":{"X-RateLimit-Remaining":"0"}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
}

// The route of a check is the path of Echo, here as /users/{id}.
func ExampleNew() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second}) // 25 ms by default
	if err != nil {
		panic(err)
	}
	defer c.Close()
	limit, err := echolimit.New(c, httplimit.Options{})
	if err != nil {
		panic(err)
	}

	e := echo.New()
	e.Use(limit)
	e.GET("/users/:id", func(ec echo.Context) error {
		return ec.String(http.StatusOK, "user "+ec.Param("id"))
	})

	for _, path := range []string{"/users/17", "/users/18"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	// Output:
	// 200  user 17
	// 429 60 {"status":429}
}
