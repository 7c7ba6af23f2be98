// Caller asks Sluice whether a request of a user may pass. The standard library only.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

type answer struct {
	Allowed      bool
	Status       int
	Remaining    *int64 // nil if no limit applies
	RetryAfterMS int64  `json:"retry_after_ms"`
}

func ask(client *http.Client, check map[string]string) (a answer, status int, err error) {
	body, err := json.Marshal(check)
	if err != nil {
		return a, 0, err
	}
	url := os.Getenv("SLUICE_SERVER") + "/ratelimit/check"
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return a, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Sluice-Timeout-Ms", strconv.FormatInt(min(max(client.Timeout.Milliseconds(), 1), 1000), 10))
	if token := os.Getenv("SLUICE_TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return a, 0, err
	}
	defer res.Body.Close()
	return a, res.StatusCode, json.NewDecoder(res.Body).Decode(&a)
}

func main() {
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv("TIMEOUT"), "0.1") + "s")
	if err != nil {
		panic(err)
	}
	check := map[string]string{"method": "POST", "route": "/reports", "user": os.Args[1]}
	a, status, err := ask(&http.Client{Timeout: timeout}, check)
	switch {
	case status >= 400 && status < 500:
		fmt.Fprintln(os.Stderr, "the question is wrong:", status)
		os.Exit(2)
	case err != nil || status != http.StatusOK:
		fmt.Println("allowed, Sluice did not answer") // or deny, if that is worse for you
	case a.Allowed && a.Remaining == nil:
		fmt.Println("allowed, no limit applies")
	case a.Allowed:
		fmt.Printf("allowed, %d left\n", *a.Remaining)
	default:
		fmt.Printf("denied with %d - wait %d ms\n", a.Status, a.RetryAfterMS) // send the answer's headers and body
		os.Exit(1)
	}
}
