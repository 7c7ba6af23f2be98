package main

// language is a folder of clients: one program that makes one call, and how to install what it needs.
type language struct {
	dir     string
	install [][]string // commands, run in the copy of the folder
	run     []string   // the program; CLIENT METHOD URL follow
}

var languages = map[string]language{
	"go": {dir: "go", install: [][]string{{"go", "build", "-o", "call", "."}}, run: []string{"./call"}},
	"java": {
		dir: "java",
		install: [][]string{
			{
				"mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies",
				"-DoutputDirectory=lib",
			},
			{"javac", "-cp", "lib/*", "Call.java"},
		},
		run: []string{"java", "-XX:TieredStopAtLevel=1", "-cp", "lib/*:.", "Call"},
	},
	"rust": {dir: "rust", install: [][]string{{"cargo", "build", "-q"}}, run: []string{"target/debug/call"}},
	"node": {
		dir:     "node",
		install: [][]string{{"npm", "install", "--no-audit", "--no-fund", "--loglevel=error"}},
		run:     []string{"node_modules/.bin/node", "call.mjs"},
	},
	"python": {
		dir: "python",
		install: [][]string{
			{"python3", "-m", "venv", "env"},
			{"env/bin/pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"},
		},
		run: []string{"env/bin/python", "call.py"},
	},
	"curl": {dir: "curl", run: []string{"./call"}},
}

// client is one row of the table.
type client struct {
	name     string // in the table, with its version
	language string
	program  string // its name in the program of the language
	how      string // how it is configured
}

var clients = []client{
	{"Go net/http 1.26", "go", "net-http", "default"},
	{"go-retryablehttp 0.7.8", "go", "go-retryablehttp", "default"},
	{"resty 2.17.2", "go", "resty-v2", "3 on 429 and 503"},
	{"resty 3.0.0-rc.4", "go", "resty-v3", "3 on 429 and 5xx"},
	{"Java 17 HttpClient", "java", "HttpClient", "default"},
	{"Apache HttpClient 5.6.5", "java", "Apache-HttpClient", "default"},
	{"OkHttp 5.5.1", "java", "OkHttp", "default"},
	{"Feign 13.13", "java", "Feign", "default"},
	{"reqwest-retry 0.9.1", "rust", "reqwest-retry", "3 retries"},
	{"superagent 10.4.2", "node", "superagent", "`retry(3)`"},
	{"got 16.1.0", "node", "got", "default"},
	{"ofetch 1.5.1", "node", "ofetch", "default"},
	{"ofetch 1.5.1", "node", "ofetch-retry", "`retry: 3`, 500 ms"},
	{"axios-retry 4.5.0", "node", "axios-retry", "3 retries, exponential"},
	{"ky 2.1.0", "node", "ky", "default"},
	{"Node 24 fetch", "node", "fetch", "default"},
	{"undici 8.13.1 RetryAgent", "node", "undici-RetryAgent", "default"},
	{"urllib3 2.8.0", "python", "urllib3", "default"},
	{"requests 2.34.2", "python", "requests", "`Retry(3)` on 429 and 503"},
	{"aiohttp-retry 2.9.1", "python", "aiohttp-retry", "3 on 429 and 503"},
	{"httpx 0.28.1", "python", "httpx", "`retries=3`"},
	{"curl 7.88", "curl", "curl", "`--retry 3`"},
	{"openai (Python) 3.57.0", "python", "openai", "default"},
	{"openai (Node) 7.59.0", "node", "openai", "default"},
	{"anthropic (Python) 2.14.0", "python", "anthropic", "default"},
	{"anthropic (Node) 1.14.0", "node", "anthropic", "default"},
}
