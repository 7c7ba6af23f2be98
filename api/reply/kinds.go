package reply

// kinds has the descriptions of all kinds. Type is only given if it is not the path of the page. Example has the
// members after the status.
var kinds = [kindCount]Description{
	Malformed: {
		Name: "malformed", Status: 400, Title: "Malformed request",
		Meaning: "The request could not be read.",
		Cause:   "The body is not valid JSON or has an unknown or repeated member, or a header or the query is malformed.",
		Action:  "Correct the request as detail says. The same request fails again.",
		Example: `"detail":"unknown member \"limt\"; did you mean limit? (line 1, byte 29)."`,
	},
	Credentials: {
		Name: "unauthorized", Status: 401, Title: "Missing or invalid credentials",
		Meaning: "The request has no valid credentials.",
		Cause:   "The header Authorization is missing, or the token is unknown, expired or revoked.",
		Action: "Send the header Authorization: Bearer TOKEN. If the token has expired or was revoked, create " +
			"another one with sluice token create.",
		Header:  "WWW-Authenticate: Bearer",
		Example: `"detail":"Send the header Authorization: Bearer TOKEN. Create a token with sluice token create."`,
	},
	Forbidden: {
		Name: "forbidden", Status: 403, Title: "Forbidden",
		Meaning: "The credentials do not permit the request.",
		Cause: "The token lacks a scope; or no token exists yet, and the request was forwarded by a proxy or " +
			"comes from another machine or web site.",
		Action:  "Use a token with the scope that detail and WWW-Authenticate name, or create the first token.",
		Header:  `WWW-Authenticate: Bearer error="insufficient_scope", scope="rules:write"`,
		Example: `"detail":"This request requires a token with the scope rules:write."`,
	},
	NotFound: {
		Name: "not-found", Status: 404, Title: "Not found",
		Meaning: "The path, or what it names, does not exist.",
		Cause: "The rule, version, override, pool, profile, webhook or silence was deleted or never existed, the " +
			"path is misspelt, or this node does not serve it.",
		Action: "Check the path against openapi.yaml, and list the objects to find the id or the name. Do not " +
			"repeat the request.",
		Example: `"detail":"The rule, version, override, pool, profile, webhook or silence does not exist."`,
	},
	Method: {
		Name: "method-not-allowed", Status: 405, Title: "Method not allowed",
		Meaning: "The path exists, but not with this method.",
		Cause:   "The request has another method than the path supports, such as GET for a check.",
		Action:  "Use one of the methods in the header Allow.",
		Header:  "Allow: OPTIONS, POST",
		Example: `"detail":"The Allow header lists the methods of this path."`,
	},
	Timeout: {
		Name: "request-timeout", Status: 408, Title: "Request timeout",
		Meaning: "The request was not complete, or not decided, in time.",
		Cause: "The body arrived too slowly, the client closed the connection, or a batch was so large that its " +
			"checks were not all decided in time.",
		Action: "Send the request again. If checks may have been charged, detail says so: give each a request_id, " +
			"so that a repetition counts once.",
		Header:  "Connection: close",
		Example: `"detail":"The body did not arrive in time."`,
	},
	NameTaken: {
		Name: "name-taken", Status: 409, Title: "Name already in use",
		Meaning: "Another object of the same sort has the name.",
		Cause:   "Names of rules, pools, profiles and webhooks are unique.",
		Action:  "Choose another name, or change the object that has it.",
		Example: `"detail":"Names are unique. Choose another name.","errors":[{"field":"name","message":"is already ` +
			`in use"}]`,
	},
	Taken: {
		Name: "already-used", Status: 409, Title: "Already in use",
		Meaning: "Another object has a value that only one may have.",
		Cause:   "The domain of a profile or the descriptor of an active rule belongs to another one.",
		Action:  "Choose another value for the field that errors names, or change the object that has it.",
		Example: `"detail":"Only one may have this. See errors.","errors":[{"field":"domain","message":"is already ` +
			`used by the profile shop"}]`,
	},
	PoolUsed: {
		Name: "pool-used", Status: 409, Title: "Pool in use",
		Meaning: "The pool cannot be deleted.",
		Cause:   "At least one rule draws on the pool.",
		Action:  "Remove the pool from every rule first. Then delete it.",
		Example: `"detail":"Remove the pool from every rule first."`,
	},
	RuleNamed: {
		Name: "rule-named", Status: 409, Title: "Rule named by others",
		Meaning: "The rule cannot be deleted.",
		Cause:   "Other rules name it in replaces.",
		Action:  "Remove its name from the rules that detail lists. Then delete it.",
		Example: `"detail":"The rule is named in replaces of vip and gold. Remove it there first."`,
	},
	OverrideExists: {
		Name: "override-exists", Status: 409, Title: "Override already exists",
		Meaning: "The rule already has an override for the key.",
		Cause:   "A rule has at most one override for each key.",
		Action:  "Update or delete the existing override.",
		Example: `"detail":"Update or delete the existing override.","errors":[{"field":"key","message":"already has ` +
			`an override"}]`,
	},
	ReservationEnded: {
		Name: "reservation-ended", Status: 410, Title: "Reservation ended",
		Meaning: "The reservation can no longer be settled.",
		Cause:   "It was settled with another weight before, it expired, or its record was lost.",
		Action:  "Do not repeat the request: the charge is final. Correct a difference with a charge or a refund.",
		Example: `"detail":"The charge is final: the estimate, or the actual weight if the reservation was settled ` +
			`before."`,
	},
	Stale: {
		Name: "stale", Status: 412, Title: "Version conflict",
		Meaning: "The object has changed since it was read.",
		Cause: "The version in If-Match is not the current one, because someone else changed the object " +
			"meanwhile.",
		Action:  "Read the object again, apply the change to it, and send it with the new ETag in If-Match.",
		Example: `"detail":"Read the current version and repeat the change on it."`,
	},
	TooLarge: {
		Name: "too-large", Status: 413, Title: "Request body too large",
		Meaning: "The body is larger than the path accepts.",
		Cause: "Bodies may have 64 KiB, those of a batch 1 MiB, an import of rules 64 MiB, and an import of " +
			"overrides 16 MiB.",
		Action:  "Send less at once, as in several batches or several files.",
		Example: `"detail":"The body must not be larger than 65536 bytes."`,
	},
	MediaType: {
		Name: "unsupported-media-type", Status: 415, Title: "Unsupported content type",
		Meaning: "The body has a format that the path does not read.",
		Cause:   "The header Content-Type is missing or names another format, or the body is compressed.",
		Action:  "Send the content type that detail names, without Content-Encoding.",
		Example: `"detail":"Send the header Content-Type: application/json."`,
	},
	Invalid: {
		Name: "invalid", Status: 422, Title: "Invalid fields",
		Meaning: "The request can be read, but some of its values are invalid.",
		Cause:   "A value is out of range or missing, or contradicts another one.",
		Action:  "Correct every field that errors names. The same request fails again.",
		Example: `"detail":"See errors for each field.","errors":[{"field":"limit","message":"must be at least 1"}]`,
	},
	TooSoon: {
		Name: "too-soon", Status: 429, Title: "Too soon",
		Meaning: "The webhook cannot be tested again yet.",
		Cause:   "Another test of the webhook is in progress or has just ended.",
		Action:  "Wait for as long as Retry-After says. Then send the request again.",
		Header:  "Retry-After: 2",
		Example: `"detail":"Another test of this webhook is under way or has just ended."`,
	},
	Internal: {
		Name: "internal", Status: 500, Title: "Internal error",
		Meaning: "The node failed to handle the request.",
		Cause:   "An error that Sluice does not expect. The log of the node has it.",
		Action: "Repeat the request once, with a request_id if it spends. If it fails again, look into the log of " +
			"the node and report the error.",
		Example: `"detail":"The error was logged. Try again."`,
	},
	Overloaded: {
		Name: "overloaded", Status: 503, Title: "Node overloaded",
		Meaning: "More requests arrived than can be decided in time. Nothing was changed.",
		Cause: "The node already decides as many large batches as it can, or the counter store had no turn for " +
			"the request in time.",
		Action: "Wait for as long as Retry-After says and send the request again, or the checks of a batch in " +
			"smaller batches.",
		Header: "Retry-After: 1",
		Example: `"detail":"The counter store had no turn for the request in time. Nothing was changed. You can ` +
			`repeat the request."`,
	},
	StoreUnavailable: {
		Name: "store-unavailable", Status: 503, Title: "Counter store unavailable",
		Meaning: "The counters are unavailable, and the operation has no fail mode.",
		Cause: "Redis is unreachable, fails or answers too late. Only checks have a fail mode; charge, refund, " +
			"reset, release, renew and settle have none.",
		Action: "Send the request again. If detail says that the operation may have been applied, repeat it only " +
			"with a request_id.",
		Header:  "Retry-After: 1",
		Example: `"detail":"Nothing was changed (timeout). You can repeat the request."`,
	},
	QueueUnavailable: {
		Name: "queue-unavailable", Status: 503, Title: "Deferred queue unavailable",
		Meaning: "The queue of deferred requests is unavailable.",
		Cause: "The storage of the queue, which is Redis or the data directory of the node, is unreachable or " +
			"fails.",
		Action:  "Send the request again later. Queued requests are not lost.",
		Header:  "Retry-After: 1",
		Example: `"detail":"Queued requests are not lost. Try again later."`,
	},
	DatabaseUnavailable: {
		Name: "database-unavailable", Status: 503, Title: "Rules database unavailable",
		Meaning: "The rules database cannot carry out the request. Checks continue with the rules last loaded.",
		Cause: "The database is unreachable, is busy with another change such as a large import, or its disk is " +
			"full or fails.",
		Action: "Send the request again later. If detail names the disk, repair it first.",
		Header: "Retry-After: 2",
		Example: `"detail":"Changes are disabled until the rules database is available again. Checks continue with ` +
			`the rules last loaded."`,
	},
	DatabaseReplica: {
		Name: "database-replica", Status: 503, Title: "Rules database is a read replica",
		Meaning: "This node does not accept changes.",
		Cause:   "The node reads its rules from a read replica of the database. The primary is in another region.",
		Action:  "Send the change to primary_url, or to a node in the region of the primary. Do not repeat it here.",
		Example: `"detail":"This node reads its rules from a read replica, so it refuses changes. Send them to ` +
			`https://sluice.eu.example.","primary_url":"https://sluice.eu.example"`,
	},
	NotReady: {
		Name: "not-ready", Status: 503, Title: "Node not ready",
		Meaning: "The node cannot answer the request yet, or is about to stop.",
		Cause: "The node has not loaded its rules or its tokens yet, is importing another large file, or is " +
			"draining.",
		Action:  "Send the request to another node, or again after a second.",
		Header:  "Retry-After: 1",
		Example: `"detail":"This node has not loaded any rules yet."`,
	},
	QuotaExceeded: {
		Name: "quota-exceeded", Type: typeQuotaExceeded, Status: 429, Title: titleQuotaExceeded,
		Meaning: "The client has used up a limit.",
		Cause:   "At least one of the limits in violated-policies has fewer units left than the request needs.",
		Action: "The client waits for as long as Retry-After says. Without Retry-After, waiting does not help: the " +
			"request exceeds the whole limit or is blocked, or the rule says so. A rule can set the status to 402 or 403.",
		Header: "Retry-After: 12",
		Example: `"detail":"Please try again in 12 ` +
			`seconds.","violated-policies":["per-minute"],"error":"rate_limit_exceeded","message":"Too many ` +
			`requests. Please try again in 12 seconds."`,
	},
	AbnormalUsage: {
		Name: "abnormal-usage-detected", Type: typeAbnormalUsage, Status: 429, Title: titleAbnormalUsage,
		Meaning: "The client is banned for a time.",
		Cause:   "The client went on after many denials, and a rule bans such clients.",
		Action:  "The client stops until the time in Retry-After has passed.",
		Header:  "Retry-After: 3600",
		Example: `"detail":"Please try again in 3600 ` +
			`seconds.","violated-policies":["sign-in"],"error":"rate_limit_exceeded","message":"Too many ` +
			`requests. Please try again in 3600 seconds."`,
	},
	ReducedCapacity: {
		Name: "temporary-reduced-capacity", Type: typeReducedCapacity, Status: 503, Title: titleReducedCapacity,
		Meaning: "The service has no capacity for the request, or cannot decide it.",
		Cause: "A pool is full and sheds the request, more requests arrive than can be decided, or the counters are " +
			"unavailable and a fail mode is closed.",
		Action: "The client waits for as long as Retry-After says, or a few seconds, and tries again.",
		Header: "Retry-After: 1",
		Example: `"detail":"The request is within its limits, but the service has no capacity for it right now. ` +
			`Please try again in 1 ` +
			`second.","violated-policies":["batch-jobs"],"error":"rate_limit_unavailable","message":"The ` +
			`service is busy. Please try again in 1 second."`,
	},
}
