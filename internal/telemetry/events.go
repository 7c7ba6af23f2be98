package telemetry

import (
	"context"
	"log/slog"
)

// Event is a kind of log line.
type Event struct {
	// Message is its text, ID its value of the attribute event, which stays when the text is reworded.
	Message, ID string
	// Meaning says what happened and what to do about it, in plain words; "" if the message says it all, and there is
	// nothing to do.
	Meaning string
}

// Events are the kinds of log lines of a node, apart from those of package trouble. A test compares them with the code.
func Events() []Event { return events }

// events are in the order of their areas: checks, start and stop, connections, rules, counters, credentials, files,
// regions, deferred requests, statistics and logs, alerts, the console.
var events = []Event{
	{"request failed", "request_failed", "An error that has no other line. The answer was a 500 or 503 problem; the " +
		"attribute error says why. Report it if it is not an outage of a store."},
	{"panic in a request", "request_panic", bug},
	{"panic in a gateway's question", "gateway_panic", bug},
	{"panic in a call of Envoy", "envoy_panic", bug},
	{"panic in a connection of gRPC", "grpc_panic", bug},
	{"panic in a connection of plain checks", "plain_panic", bug},
	{"panic in the console", "console_panic", bug},
	{"panic in a replay of the decision log", "replay_panic", bug},
	{"the counter store could not decide; fail modes apply", "store_failed",
		"Each rule's fail mode decided for a check. " +
			"The attributes cause and advice say what to look at. The line appears at most every ten seconds for each cause."},
	{"more checks arrive than can be decided in time", "overloaded", "Checks were refused with 503 and the type " +
		"overloaded. Add nodes, or raise the CPU limit."},
	{"checks were late because this process was not run for longer than the store timeout", "checks_late",
		"The node lacks CPU. Raise its CPU limit, or move other programs away."},
	{"a key became hot", "key_hot", "One key gets many checks. The attribute served says how the node saves calls to " +
		"Redis for it. Nothing need be done."},
	{"reading the hot keys of all nodes failed", "hot_keys_unread", "The list has only the hot keys of this node. " +
		"See whether Redis is reachable."},
	{"a profile cannot be used", "profile_unusable", "Gateway requests with this profile are refused. Edit the profile; " +
		"the attribute error names the member."},
	{"a proxy gets no units; it denies by no_assignment_behavior", "envoy_quota_refused",
		"The attribute reason says why; " +
			"docs/envoy.md lists the reasons. The proxy asks again by itself."},
	{"expired reservations stay charged, because each settlement of them failed", "reservations_given_up",
		"Their keys have less left than they should. Reset those keys if that matters."},
	{"the local token is not used", "local_token_unused", "The command found the file of the local token but cannot use " +
		"it. Give a token with --token, or run the command as the user of the server."},
	{"a variable of the environment is no setting", "setting_unknown", "A name that begins with SLUICE_ has no effect. " +
		"The attribute problem names a similar setting."},

	{"listening", "listening", ""},
	{"listening for gRPC", "grpc_listening", ""},
	{"draining", "draining", "The node was told to stop. The node answers 503 at /readyz and still decides checks."},
	{"stopping", "stopping", ""},
	{"the drain timeout passed; closing connections with requests in flight", "drain_timed_out", "Some callers saw a " +
		"closed connection. Give the process more time to stop."},
	{"the drain timeout passed; gRPC connections with calls in flight were closed", "grpc_drain_timed_out",
		"Some proxies saw a closed connection. Give the process more time to stop."},

	{"accepting a connection failed", "accept_failed", "Usually the limit of open files: raise it (ulimit -n)."},
	{"too many open connections; new ones wait until others close", "connections_full",
		"Raise the limit of open files (ulimit -n), or let callers keep fewer connections."},
	{"a new connection was closed", "connection_closed", "The node could not serve a connection. The attribute error " +
		"says why."},
	{"a connection was closed: net/http cannot have it", "connection_not_passed_on", "A caller saw a closed connection. " +
		"Report it if it repeats."},
	{"refusing new connections failed; they are accepted until the listener closes", "refusing_failed", ""},
	{"a TLS handshake failed", "tls_handshake_failed", "A client does not trust the certificate, or speaks no TLS."},
	{"TLS certificate loaded", "certificate_loaded", ""},
	{"the TLS certificate has expired; the other side will refuse it", "certificate_expired",
		"Replace the certificate's file. The node then reads the new certificate."},

	{"rule set in force", "rules_in_force", ""},
	{"overrides in force", "overrides_in_force", ""},
	{"tokens in force", "tokens_in_force", ""},
	{"a change was saved but is not in force on this node yet", "change_delayed",
		"The node applies the change as soon as possible. " +
			"The attribute why names the reason."},
	{"applying the changed rules failed; loading all rules", "changes_unapplied", ""},
	{"the rules database was restarted or is a different server; loading everything again", "database_restarted", ""},
	{"there is no saved copy of the rules to start with", "copy_missing", "The node waits for the rules database."},
	{"started with the saved copy of the rules", "copy_used",
		"The rules database did not answer at the start. Checks are " +
			"decided by the last known rules; edits fail until the database is back."},
	{"the saved copy of the rules was rejected; waiting for the rules database", "copy_rejected",
		"The file rules.copy is damaged or of another version. Restore the database; the node then writes the file anew."},
	{"started with the saved copy of the overrides", "override_copy_used", "As copy_used, for overrides."},
	{"the saved copy of the overrides was rejected; every key gets its rule's own limit until the rules " +
		"database is available",
		"override_copy_rejected", "Restore the rules database."},
	{"deleting old version history failed", "history_kept", ""},
	{"deleting expired overrides failed", "overrides_kept", ""},
	{"the condition of a rule has a larger pattern than new rules may have", "pattern_large",
		"The rule works. Its next edit must make the pattern smaller."},
	{"the patterns of all rules together are larger than new rules may make them", "patterns_large",
		"The rules work. New patterns are refused until others are smaller."},
	{"further rules with oversized patterns are not listed", "patterns_more", ""},
	{"the rules database is a read replica: this node follows it by polling and refuses changes", "database_replica",
		"Make changes at the primary region."},
	{"the rules database is a primary now: this node accepts changes", "database_primary", ""},

	{"the rules database was replaced by another one", "database_replaced", "Check DATABASE_URL on all nodes: they must " +
		"name the same database."},
	{"the counters belonged to another rules database without a live node; from now on they belong to the rules " +
		"database of this node",
		"counters_taken_over", "Expected after a move to another database. Otherwise two databases use one Redis: set " +
			"SLUICE_KEY_PREFIX."},
	{"the node could not leave the nodes of its rules database", "node_not_left", "It counts as live for 10 s more."},
	{"key names follow Redis", "key_names", ""},
	{"the number of in-memory counters is limited", "memory_keys", ""},
	{"REDIS_URL is not set: this node counts alone, and each of several nodes allows the full limit", "counts_alone",
		"Set REDIS_URL if you run more than one node."},
	{"counters restored", "counters_restored", ""},
	{"there is no counter snapshot to restore", "snapshot_missing", ""},
	{"the counter snapshot was rejected; all counters start at zero", "snapshot_rejected",
		"The file is damaged or of another version. Nothing need be done."},
	{"saving the counter snapshot failed; the previous snapshot is kept", "snapshot_unsaved",
		"Counts since the previous snapshot are lost at a crash. See to the disk that the attribute file is on."},
	{"the saved node count is not valid and is ignored", "node_count_rejected", ""},
	{"saving the node count failed; a start during a Redis outage uses an older count", "node_count_unsaved",
		"See to the disk of the data directory."},

	{"no token exists: this node answers checks without a token, and a proxy on this machine opens them to its clients; " +
		"create one with sluice token create", "open_mode", "Create a token before others reach the node."},
	{"the first token exists: the local token is not valid any more", "local_token_void", ""},
	{"removing the local token of an earlier run failed", "local_token_kept",
		"Delete the file. It is not valid any more."},
	{"removing the local token failed", "local_token_kept_at_stop", "Delete the file. It is not valid any more."},
	{"writing the local token failed; calls other than checks need a token of " +
		"sluice token create", "local_token_unwritten",
		"See to the disk of the data directory, or create a token."},
	{"calls were refused for their credentials", "credentials_refused",
		"The attributes name the token, the endpoint and " +
			"the reason. Give the caller a new token, or stop the caller."},
	{"the file of a secret is not usable; its previous value stays in use", "secret_unusable",
		"Correct the file that the attributes name. Later connections may fail with the previous value."},
	{"a secret has changed; new connections use the new value", "secret_changed", ""},
	{"the file of a secret is usable again; its value is the same as before", "secret_usable", ""},
	{"the decision log hides credentials instead of hashing them until the rules database answers", "records_hide",
		"The key of the hashes is in the rules database. Nothing need be done when it answers again."},

	{"others may enter the data directory or write to it: it contains token hashes, counters and rules", "data_dir_open",
		"Make it private: chmod 700."},
	{"removing a temporary file of an earlier run failed", "temporary_kept", "Delete the file that the line names."},
	{"removed a temporary file of an earlier run", "temporary_removed", ""},

	{"limits can span regions", "regions_on", ""},
	{"a message of another region was refused", "region_message_refused", "The attribute error says why: usually a " +
		"token, a clock, or two regions with one name."},
	{"restoring the units that this region had spent failed; it is tried again", "region_restore_retry", ""},
	{"the Redis of this region was empty; the units that other regions know are counted again", "region_restored",
		"Redis lost its data. See whether it should persist them."},
	{"a message about shares was not sent, or its answer was not kept", "share_unsent", "The next one says the same."},
	{"cannot confirm which updates the other regions have received", "updates_unconfirmed", "They are sent again."},

	{"a deferred queue cannot be read; other queues are not affected", "queue_unreadable",
		"Its file is damaged. The requests in it are not released. Keep the file and report it."},
	{"the damaged end of a deferred queue was removed", "queue_repaired", "The process or the machine stopped during a " +
		"write. The caller of that request got no ticket."},
	{"the queue of deferred requests is unavailable; requests are denied instead", "queue_unavailable",
		"See to Redis, or to the disk of the data directory."},
	{"the queue of deferred requests does not answer; whether requests are deferred is unknown", "queue_unknown",
		"See to Redis. Callers may repeat with the same request_id."},
	{"fetching deferred requests failed; retrying", "runner_fetch_failed",
		"A line of sluice deferred run. The attribute " +
			"error says why."},
	{"delivering a deferred request failed; it returns to the queue", "runner_delivery_failed", "Its target did not " +
		"accept the request."},
	{"a deferred request was delivered, but acknowledging it failed; it may be delivered again", "runner_ack_failed", ""},

	{"figures could not be written to the rules database and are lost", "figures_lost", "The statistics of some " +
		"minutes are missing. Decisions are not affected."},
	{"figures could not be written to the rules database; the next start of this node writes them", "figures_kept", ""},
	{"figures could not be written to the rules database, nor kept for the next start; they are lost", "figures_unkept",
		"See to the disk of the data directory."},
	{"figures are older than an hour by the clock of the rules database, so they are lost; if this goes on, compare the " +
		"clock of this machine with that of the database", "figures_old", ""},
	{"the figures that the last run could not write to the rules database cannot be read, so they are missing; " +
		"delete the file",
		"figures_unreadable", ""},
	{"the file of figures that were written cannot be deleted", "figures_file_kept", "The next start writes them again, " +
		"which changes nothing. See to the disk of the data directory."},
	{"another program removed or replaced the file of the decision log; events go to a new one", "records_file_replaced",
		"Let sluice rotate the file, and no other program."},
	{"the decision log cannot begin a new file and goes on with the old one until that has a quarter of " +
		"SLUICE_DECISION_LOG_MAX_BYTES", "records_not_rotated", "See to the disk and the rights of its directory."},
	{"earlier files of the decision log cannot be compressed or removed", "records_files_kept",
		"See to the disk and the rights of its directory, or it fills up."},
	{"the decision log is closed", "records_closed", "The node stopped. The attributes say how many events the log of " +
		"this sink has produced, delivered and dropped, and of how many Kafka's answer is not known."},
	{"the node stopped before Kafka took all events of the decision log", "records_unsent", "See to the brokers. The " +
		"attribute dropped is the number of events that are lost."},
	{"traces are closed", "traces_closed", ""},
	{"spans are dropped: they come faster than the collector takes them", "spans_dropped", "Sample fewer requests, or " +
		"see to the collector."},
	{"OpenTelemetry reports a problem", "traces_problem", ""},

	{"this node evaluates alerts now", "alerts_here", ""},
	{"this node evaluates alerts no longer", "alerts_elsewhere", ""},
	{"could not release the lease of alerts; it expires", "alert_lease_kept", "Another node evaluates alerts after that."},
	{"the rules database does not take what became of a message to a webhook", "delivery_unnoted",
		"The message may be sent twice."},
	{"a webhook takes messages again", "webhook_works", ""},
	{"the receiver of a webhook answered 410; the webhook is disabled", "webhook_disabled", "Enable it again on the " +
		"console when its receiver exists."},
	{"a message to a webhook failed; it is sent again for a day", "webhook_failed", "The console's page of the webhook " +
		"shows the answers of its receiver."},
	{"cleaning the messages to webhooks failed", "deliveries_kept", ""},

	{"the console has no account", "console_unclaimed", "Open the link in the line to make the first account."},
	{"a page of the console failed", "page_failed", bug},
	{"the page of an error failed", "error_page_failed", bug},
	{"a client left before the page of an error", "page_left", ""},
	{"a stream of the console ended", "stream_ended", ""},
	{"the live parts of the page of traffic failed", "traffic_stream_failed", ""},
	{"deleting expired sessions failed", "sessions_kept", "Expired sessions are not valid. The next try deletes them."},
	{"could not note a sign-in", "sign_in_unnoted", ""},
	{"could not note that a session is in use", "session_unnoted", ""},
	{"signed in to the console", "signed_in", ""},
	{"signed out of the console", "signed_out", ""},
	{"refused a password", "password_refused",
		"Many of these lines for one account or address are an attack. The console " +
			"limits the attempts."},
	{"too many attempts to sign in", "sign_in_limited", "As password_refused."},
	{"could not decide the limits on signing in", "sign_in_undecided", "See to the counter store. Nobody can sign in."},
	{"could not give back an attempt to sign in", "sign_in_not_given_back", ""},
	{"the provider of single sign-on does not answer", "sso_unreachable", "See to the provider and the network."},
	{"refused the answer of single sign-on", "sso_answer_refused", "The attribute error says what is wrong with it: " +
		"usually a clock or a setting."},
	{"the provider of single sign-on refused", "sso_refused", ""},
	{"someone else confirmed an act by single sign-on", "sso_other_person", "The act was refused."},
	{"single sign-on does not say that someone has just signed in", "sso_not_fresh", "The act was refused. The provider " +
		"must support max_age and send auth_time."},
	{"refused to sign in by single sign-on: none of the groups has a role", "sso_no_role", "Name one of the groups in a " +
		"setting, such as SLUICE_OIDC_VIEWER_GROUPS."},
	{"made an account", "account_made", ""},
	{"made a link to choose a password", "link_made", ""},
	{"could not delete a link that was used; it is void", "link_kept", ""},
	{"made an API token", "token_made", ""},
	{"rotated an API token", "token_rotated", ""},
	{"connected a gateway", "gateway_connected", ""},
	{"removed a gateway that never asked", "gateway_removed", ""},
	{"noting the first question of a gateway failed", "gateway_unnoted", "The console still offers to remove a gateway " +
		"that has asked. The node tries again."},
	{"revoked an API token", "token_revoked", ""},
	{"rotated the secret of a webhook", "webhook_rotated", ""},
	{"the audit log was downloaded", "audit_downloaded", ""},
	{"a download of the audit log ended early", "audit_download_failed", "The file is not whole. Download it again."},
	{"the export of overrides ended early", "export_failed", "The file is not whole. Export again."},
	{"the console could not read alerts", "page_without_alerts", store},
	{"the console could not read the deferred requests", "page_without_deferred", store},
	{"the console could not drop deferred requests", "deferred_not_dropped", store},
	{"the console could not read figures of a key", "page_without_key", store},
	{"the console could not look at a bucket", "page_without_bucket", store},
	{"the console could not read earlier rules", "page_without_earlier_rules", store},
	{"earlier rules do not compile", "earlier_rules_refused", "A page of a request was shown without the rules of its " +
		"time. The attribute error names the rule."},
	{"the console could not read the counters", "page_without_counters", store},
	{"the console could not read a statement", "page_without_statement", store},
	{"the console could not read incidents", "page_without_incidents", store},
	{"the console could not read figures of traffic", "page_without_figures", store},
	{"could not read the figures of a rule", "page_without_trial", store},
}

const (
	bug   = "A mistake in the program. Report it with the whole line."
	store = "A page was shown without this part. See whether Redis and the rules database are reachable."
)

// ids are the IDs by message.
var ids = func() map[string]string {
	out := make(map[string]string, len(events))
	for _, e := range events {
		out[e.Message] = e.ID
	}
	return out
}()

// named is a handler that begins each line of a known kind with its event.
type named struct{ slog.Handler }

// Handle implements slog.Handler.
func (h named) Handle(ctx context.Context, r slog.Record) error {
	id, ok := ids[r.Message]
	if !ok {
		return h.Handler.Handle(ctx, r)
	}
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	line.AddAttrs(slog.String("event", id))
	r.Attrs(func(a slog.Attr) bool {
		line.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h named) WithAttrs(attrs []slog.Attr) slog.Handler { return named{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h named) WithGroup(name string) slog.Handler { return named{h.Handler.WithGroup(name)} }
