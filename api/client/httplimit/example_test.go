package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"sluice/api/client"
	"sluice/api/client/httplimit"
)

// service stands in for Sluice: it allows each check of the examples once.
func service() *httptest.Server {
	var mu sync.Mutex
	allowed := map[string]bool{
		`{"method":"GET","route":"/users/{id}","host":"example.com","ip":"192.0.2.1","attributes":{"host":"example.com"}}`: true,
		`{"method":"POST","route":"/exports","host":"example.com","ip":"192.0.2.1","user":"ada",` +
			`"attributes":{"host":"example.com"},"weight":5}`: true,
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		answer := `{"allowed":false,"status":429,"headers":{"Retry-After":"60"},"body":{"status":429}}`
		if allowed[string(check)] {
			answer = `{"allowed":true,"status":200,"headers":{"X-RateLimit-Remaining":"0"}}`
		}
		delete(allowed, string(check))
		_, _ = io.WriteString(w, answer)
	}))
}

// The route of a check is the pattern of the mux, so one rule limits the requests for every user.
func ExampleLimiter_Handler() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second}) // 25 ms by default
	if err != nil {
		panic(err)
	}
	defer c.Close()
	limit, err := httplimit.New(c, httplimit.Options{})
	if err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("user", r.PathValue("id"))
	})
	h := limit.Handler(mux) // for http.ListenAndServe

	for _, path := range []string{"/users/17", "/users/18"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
		fmt.Println(w.Code, w.Header())
	}
	// Output:
	// user 17
	// 200 map[X-Ratelimit-Remaining:[0]]
	// 429 map[Cache-Control:[no-store] Content-Type:[application/problem+json] Retry-After:[60]]
}

// Describe names the authenticated user and says what a request costs. Skip names requests that are not checked.
func ExampleOptions() {
	s := service()
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Timeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	userOf := func(*http.Request) string { return "ada" } // from the session
	limit, err := httplimit.New(c, httplimit.Options{
		Describe: func(r *http.Request, q *client.Check) {
			q.User = userOf(r)
			q.Weight = new(int64(5))
		},
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
	})
	if err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /exports", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	h := limit.Handler(mux)

	for _, request := range [][2]string{{"POST", "/exports"}, {"POST", "/exports"}, {"GET", "/healthz"}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), request[0], request[1], nil))
		fmt.Println(request[1], w.Code)
	}
	// Output:
	// /exports 200
	// /exports 429
	// /healthz 200
}
