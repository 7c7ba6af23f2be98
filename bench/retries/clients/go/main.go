// Command clients makes one call with one client: clients CLIENT METHOD URL.
package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	restyv2 "github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"
	restyv3 "resty.dev/v3"
)

func main() {
	client, method, url := os.Args[1], os.Args[2], os.Args[3]
	status, err := call(client, method, url)
	if err != nil {
		slog.Error(client, "err", err)
		return
	}
	fmt.Println(status)
}

func call(client, method, url string) (int, error) {
	body := []byte(`{"amount":1}`)
	if method == http.MethodGet {
		body = nil
	}
	switch client {
	case "net-http":
		req, err := http.NewRequest(method, url, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	case "go-retryablehttp":
		req, err := retryablehttp.NewRequest(method, url, body)
		if err != nil {
			return 0, err
		}
		res, err := retryablehttp.NewClient().Do(req)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	case "resty-v2":
		denied := func(res *restyv2.Response, _ error) bool { return res.StatusCode() == 429 || res.StatusCode() == 503 }
		res, err := restyv2.New().SetRetryCount(3).AddRetryCondition(denied).R().SetBody(body).Execute(method, url)
		if err != nil {
			return 0, err
		}
		return res.StatusCode(), nil
	case "resty-v3":
		c := restyv3.New().SetRetryCount(3).
			AddRetryConditions(restyv3.RetryConditionStatusTooManyRequests, restyv3.RetryConditionStatus5XX)
		defer c.Close()
		res, err := c.R().SetBody(body).Execute(method, url)
		if err != nil {
			return 0, err
		}
		return res.StatusCode(), nil
	}
	return 0, fmt.Errorf("no client %q", client)
}
