//! Every metric's name, in one list. The documentation and a test are held against it.

/// Name (without the `_total` that counters get) and help of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name as registered.
    pub name: &'static str,
    /// What it counts, with its unit.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident = $name:literal, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric { name: $name, help: $help };
        )*

        /// Every metric.
        pub const ALL: &[Metric] = &[$($constant,)*];
    };
}

metrics! {
    CALLS = "portolan_calls", "Calls ended, by model, operation and outcome";
    TENANT_CALLS = "portolan_tenant_calls", "Calls ended, by tenant and outcome";
    REJECTIONS = "portolan_rejections", "Calls answered with an error of ours, by code";
    REFUSALS = "portolan_refusals", "Calls that a limit or a budget refused, by its level (node, tenant, app, key, scenario, user, model, provider) and what was short (a rate, concurrency, streams, queue, budget, credit)";
    CALL_SECONDS = "portolan_call_seconds", "Time from a call's first byte in to its last byte out, in seconds, by model";
    FIRST_BYTE_SECONDS = "portolan_first_byte_seconds", "Time until the first byte of the answer, in seconds, by model";
    CHUNK_GAP_SECONDS = "portolan_longest_chunk_gap_seconds", "Longest time between two chunks of a stream, in seconds, by model";
    IN_FLIGHT = "portolan_calls_in_flight", "Calls in progress";
    STREAMS = "portolan_streams_in_flight", "Streamed calls in progress";
    TASKS = "portolan_tasks", "Tasks of the node's runtime that have not ended";
    CONNECTIONS = "portolan_connections", "Callers' connections open, by HTTP version";
    QUEUE_DEPTH = "portolan_queue_depth", "Calls that wait, by what for (server: a place at a model's servers; limit: a place under limits) and priority";
    QUEUE_WAIT_SECONDS = "portolan_queue_wait_seconds", "Time that calls waited until it was their turn, in seconds, by what for and priority";
    TOKENS = "portolan_tokens", "Tokens settled, by model and kind (input, cached, output)";
    INPUT_RATIO = "portolan_input_ratio", "Input tokens that a call was thought to have, counted or estimated, per token that its upstream reported, by model";
    INPUT_DEVIATES = "portolan_input_deviates", "1 while that is more than 15 % off over an hour's calls, weighed by their tokens, 0 otherwise, by model";
    TENANT_TOKENS = "portolan_tenant_tokens", "Tokens settled, by tenant";
    COST = "portolan_cost_nanousd", "Money charged in billionths of a dollar, by model";
    TENANT_COST = "portolan_tenant_cost_nanousd", "Money charged in billionths of a dollar, by tenant";
    ATTEMPTS = "portolan_attempts", "Attempts at targets, by path (local, peer, relay) and result";
    OVERHEAD_ATTEMPTS = "portolan_overhead_attempts", "Failed attempts that may have cost something at their upstream, by path";
    SPECIAL_ENDS = "portolan_unsettled_drops", "Holds that were dropped without a settlement and charged in full";
    RECORDS_DROPPED = "portolan_records_dropped", "Call records lost because their sink was slower than the calls";
    SPANS_DROPPED = "portolan_spans_dropped", "Trace spans lost because their sink was slower than the calls";
    INSTANCES_OUT = "portolan_upstreams_out", "Model servers taken out after failures";
    TOKENIZERS_MISSING = "portolan_tokenizers_missing", "Tokenizers that models name and this node does not have: their calls are bounded by bytes; `portolan status` and the log say what is wrong and what to do";
    LEASE_WAITS = "portolan_lease_waits", "Calls that had to wait for credit, by result (granted, refused)";
    LEASE_GRANTED = "portolan_lease_granted", "Credit granted to this edge in the open window, in the budget's unit, by budget";
    LEASE_SPENT = "portolan_lease_spent", "Credit this edge spent in the open window, in the budget's unit, by budget";
    LEASE_HELD = "portolan_lease_held", "Credit held by calls in progress, in the budget's unit, by budget";
    LEASE_RECALLS = "portolan_lease_recalls", "Times that central asked for credit back that calls elsewhere wait for, or that a lowered limit lacks, by level of the budget (tenant, app, key, scenario, user, model, provider); at a central node: that it asked edges attached to it";
    LEASE_RECALLED = "portolan_lease_recalled", "Credit that came back because central asked, by level and unit of the budget, money in billionths of a dollar";
    SPOOL_PENDING = "portolan_spool_pending", "Receipts not yet applied by central";
    EPOCH = "portolan_config_epoch", "Version of the configuration in force";
    CONFIG_AGE_SECONDS = "portolan_config_age_seconds", "Time since central last confirmed the configuration, in seconds";
    LINK_RTT_SECONDS = "portolan_link_rtt_seconds", "Round trip to another node, in seconds, by node";
    RAFT_TERM = "portolan_raft_term", "Raft term";
    RAFT_LEADER = "portolan_raft_is_leader", "1 on the leader, 0 elsewhere";
    RAFT_COMMITTED = "portolan_raft_committed_index", "Index of the last committed log entry";
    RAFT_APPLIED = "portolan_raft_applied_index", "Index of the last applied log entry";
    RAFT_LOG_ENTRIES = "portolan_raft_log_entries", "Entries in the log that are not purged";
    SESSIONS = "portolan_edge_sessions", "Edges attached to this node";
    PROPOSAL_SECONDS = "portolan_proposal_seconds", "Time from a proposal to its application, in seconds";
    KEY_CALLS = "portolan_provider_key_calls", "Calls made with a provider's key, by provider, key and result (served, limited, refused, model: the model was refused to it, failed, other: the caller left or was at fault)";
    KEY_AWAY = "portolan_provider_key_away", "Times that a provider's key was left alone, by provider, key and why (paced: it was limited; spent: its provider said that nothing is left of a limit; suspended: it was refused; model: one model was refused to it)";
    KEY_SERVING = "portolan_provider_key_serving", "1 while a provider's key serves, 0 while it is suspended or paced for all models, by provider and key";
    KEY_LEFT = "portolan_provider_key_left", "What its provider said last to be left of a key's limits, the least of any model, while that is known, by provider, key and unit (requests, tokens)";
    RECEIPTS_APPLIED = "portolan_receipts_applied", "Receipts applied";
    USAGE_HEAD = "portolan_usage_head_index", "Index of the last log entry that this node's usage store knows of";
    USAGE_MISSING = "portolan_usage_missing_entries", "Log entries whose receipts this node's usage store lacks and fetches from other nodes";
    USAGE_WAITING = "portolan_usage_waiting", "Applied receipts that wait to be written to the usage store";
    USAGE_FAILING = "portolan_usage_failing", "1 while the usage store cannot be written, 0 otherwise";
    USAGE_WRITTEN = "portolan_usage_written", "Receipts written to the usage store, fetched ones included";
    CLICKHOUSE_BEHIND = "portolan_clickhouse_behind_receipts", "Receipts that wait for the server outside, counted up to a million, at the central node that leads; 0 elsewhere";
    CLICKHOUSE_FAILING = "portolan_clickhouse_failing", "1 at the central node that leads while the server outside takes no receipts, 0 otherwise";
    CLICKHOUSE_SHIPPED = "portolan_clickhouse_shipped", "Receipts that the server outside took from this node";
    CLICKHOUSE_LOST = "portolan_clickhouse_lost_entries", "Log entries whose receipts were forgotten before the server outside took them";
    BUDGET_LIMIT = "portolan_budget_limit", "Limit of the open window, in the budget's unit, by budget";
    BUDGET_SPENT = "portolan_budget_spent", "Spent in the open window, in the budget's unit, by budget";
    BUDGET_GRANTED = "portolan_budget_granted", "Granted and not returned in the open window, in the budget's unit, by budget";
    BUDGET_DEBT = "portolan_budget_debt", "What calls of the open window cost beyond their holds, in the budget's unit, by budget; part of what is spent";
    BUDGET_STRANDED = "portolan_budget_stranded", "Left by lives of edges that ended without a last word, or written off, in the open window, in the budget's unit, by budget";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_follow_the_convention() {
        let mut names: Vec<_> = ALL.iter().map(|metric| metric.name).collect();
        assert!(names.iter().all(|name| name.starts_with("portolan_") && !name.ends_with("_total")));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
