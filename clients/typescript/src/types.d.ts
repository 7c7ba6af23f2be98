// The documents of the API, as openapi.yaml describes them. docs/http-checks.md of Sluice explains the members of a check.

/** Decides while counters are unavailable. */
export type FailMode = 'open' | 'closed' | 'local';

export type Algorithm =
  | 'fixed_window' | 'sliding_window_log' | 'sliding_window_counter' | 'sliding_window_buckets' | 'token_bucket'
  | 'gcra' | 'leaky_bucket' | 'leaky_queue' | 'concurrency';

/** Members of every check. */
export interface CommonCheck {
  /** In units, 0 to 2^53-1; 1 if absent. 0 looks without spending. */
  weight?: number;
  /**
   * Up to 64 bytes. It identifies the request: a repeat within a minute gets the stored answer and is not charged
   * again.
   */
  request_id?: string;
  /** The client's user agent, for the decision log; it decides nothing. The first 512 bytes are recorded. */
  user_agent?: string;
  /** The client's trace, for the decision log; it decides nothing. The first 64 bytes are recorded. */
  trace_id?: string;
  /** What headers and body of the answer are for besides the usual. */
  dialect?: 'openai' | 'anthropic' | 'mcp';
}

/** The limit of one key. key, algorithm and window_ms name the bucket. */
export interface KeyLimit {
  /** 1 to 1,024 bytes. */
  key: string;
  /** In units per window, 0 to 2^53-1. */
  limit: number;
  /** In milliseconds, from 1 to ten years. For concurrency it is how long a slot is held. */
  window_ms: number;
  /** sliding_window_counter if absent. */
  algorithm?: Algorithm;
  /** The capacity of token_bucket, gcra, leaky_bucket and leaky_queue, in units; the limit if absent. */
  burst?: number;
  /** The start of a fixed_window; calendar if absent. */
  align?: 'calendar' | 'first_hit';
  /** The start of a calendar window, in ms since 1970. */
  anchor_ms?: number;
  /** The number of parts of a window, up to 1,440, for sliding_window_buckets; 60 if absent. */
  buckets?: number;
  /** Decides if the service cannot reach its counters; open if absent. */
  fail_mode?: FailMode;
}

/** A check that brings its own limit. */
export interface DirectCheck extends CommonCheck, KeyLimit {}

/** One of several direct limits. No two of a check have the same key, algorithm and window_ms. */
export interface DirectLimit extends KeyLimit {
  /** Its name in the answer and in client headers; default-1, default-2 and so on if absent. */
  name?: string;
}

/** 1 to 16 direct limits that are taken all together or not at all. */
export interface LimitsCheck extends CommonCheck {
  limits: DirectLimit[];
}

/** Facts of a request, by which the service finds its rules. At least one is needed; an empty one is absent. */
export interface FactsCheck extends CommonCheck {
  method?: string;
  /** A path, such as /v1/charges, a URL, of which the path counts, or the template that it matched. */
  route?: string;
  /** The host that the request is for, with or without a port. */
  host?: string;
  /** An IPv4 or IPv6 address. */
  ip?: string;
  user?: string;
  api_key?: string;
  tier?: string;
  /** Up to 64 further facts. */
  attributes?: Record<string, string>;
  /** Up to 64 numbers of the request, at least 0, for rules with a weight_field. */
  fields?: Record<string, number>;
  /** Stored with a request that a rule defers, up to 16 KiB. Only check accepts it, and sends such a check alone. */
  payload?: string;
}

/** One request to decide. */
export type Check = DirectCheck | LimitsCheck | FactsCheck;

/** Corrects a reservation to the actual use. At least one of weight, fields and decisions is needed. */
export interface Settlement {
  /** That of the answer, or request_id: that of the reserve. */
  reservation?: string;
  request_id?: string;
  /** In units, 0 to 2^53-1. */
  weight?: number;
  /** For rules with a weight_field. */
  fields?: Record<string, number>;
  /** What the caller decided by itself of the requests that were granted. */
  decisions?: { allowed?: number; denied?: number };
}

/** Prolongs a reservation, 1 s to 1 h from now and 24 hours in all, and adds to its estimate. */
export interface Renewal {
  /** The newest one. */
  reservation: string;
  /** 60000 if absent. */
  ttl_ms?: number;
  /** In units; fields are for rules with a weight_field. */
  more?: { weight?: number; fields?: Record<string, number> };
}

/** The figures of a limit. Those that are unknown are absent. */
export interface Figures {
  /** In units per window: the limit in force, after tiers, schedules and overrides. */
  limit?: number;
  /** The most that a bucket algorithm admits at once. */
  burst?: number;
  /** The largest weight that would pass now. */
  remaining?: number;
  /** Units that count now. It can exceed the limit, as after a settlement of more than was left. */
  used?: number;
  /** The time until nothing counts as spent, -1 for never. */
  reset_ms?: number;
  /** The time until the same request passes if no other spends in between; -1 if waiting does not help. */
  retry_after_ms?: number;
  /** The time until the ban of the key ends. */
  ban_ms?: number;
}

/** The decision of one limit. */
export interface LimitAnswer extends Figures {
  /** The name of the rule, or of one of several direct limits; null for a single direct limit. */
  rule: string | null;
  /** The name of the bucket. Credentials in it are hashed. */
  key: string;
  allowed: boolean;
  limit: number;
  /** Only enforce can deny. */
  mode: string;
  delay_ms?: number;
  refunded?: number;
  soft?: boolean;
  elastic?: boolean;
  shed?: boolean;
  overloaded?: boolean;
  condition_failed?: boolean;
  degraded?: string;
}

/** The decision about a request, or the state after another operation. Newer services may add members. */
export interface Answer extends Figures {
  allowed: boolean;
  /** The status for the program's own client: 200, 202 (deferred), 402, 403, 429 or 503. */
  status: number;
  /** retry_after_ms in seconds, rounded up. */
  retry_after_s?: number;
  /** How long an allowed request waits before it starts, or a denial before it is sent. */
  delay_ms?: number;
  /** null, or the fail mode that decided. byClient says whose it was. */
  degraded: string | null;
  /** The strictest rule; null for a single direct limit or if none applied. */
  rule: string | null;
  /** Allowed above the limit of a soft rule. */
  soft?: boolean;
  /** Allowed above the limit of an elastic rule. */
  elastic?: boolean;
  /** Denied within the limits, because a pool has no room. */
  shed?: boolean;
  /** Denied because more arrived than the service could decide in time. Nothing was charged. */
  overloaded?: boolean;
  /** The stored answer to an earlier request with the same request_id. Nothing was spent. */
  replayed?: boolean;
  /** What a rule advises whose key has used much of its limit: the rule whose members win, and the texts by name. */
  advice?: { rule: string; set: Record<string, string> };
  /** For release and renew, if concurrency slots were taken. */
  lease?: string;
  /** For settle, if a reserve was allowed. */
  reservation?: string;
  /** The time in which the reservation can be settled. */
  expires_in_ms?: number;
  /** The percentage of the estimate that stays charged if nobody settles the reservation; absent if all of it does. */
  on_expire_percent?: number;
  /** How many requests a reserve with times has charged for the caller to decide. */
  granted?: number;
  /** For how long, from the moment of sending, the caller may decide them; 0 for not at all. */
  spend_within_ms?: number;
  /** These requests fall evenly to 0 within that time. */
  shrinks?: boolean;
  /** Identifies a deferred request. */
  ticket?: string;
  /** unknown if the request may or may not be in the queue. */
  deferred?: string;
  /** Why a request was denied instead of deferred: full or unavailable. */
  not_deferred?: string;
  /** The number of limits that a reset reached. */
  reset?: number;
  /** Whether a reset that closes has closed a bucket. */
  ended?: boolean;
  /** Units that a refund, release or settlement returned to one limit, the highest of all limits. */
  refunded?: number;
  limits: LimitAnswer[];
  /** For the response to the program's own client, allowed or not. */
  headers: Record<string, string>;
  /** The document for a client that is denied (Denial) or deferred. */
  body?: object;
  /** The service was unavailable, and the fail mode of this client decided. It is no member of the API. */
  byClient: boolean;
}

/** The problem document for a client that is denied. */
export interface Denial {
  type: string;
  title: string;
  status: number;
  detail: string;
  'violated-policies': string[];
  error: string;
  message: string;
}

/** An error response of the service (RFC 9457). */
export interface ProblemDocument {
  type: string;
  title: string;
  status: number;
  detail?: string;
  errors?: FieldError[];
  primary_url?: string;
}

/** What is wrong with one field of a request. */
export interface FieldError {
  field: string;
  message: string;
}
