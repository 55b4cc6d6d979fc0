//! `[host.cache]` and `[controller.cache]`.

use crate::cache::{BlockCacheSpec, CacheReadAhead, FlushOrder, MAX_STREAMS, WriteBackPolicy, WritePolicy};
use crate::description_toml::DescriptionFields;

/// Parses a cache; missing keys are as in [`BlockCacheSpec::default`], and writes as in `back`.
pub(super) fn parse_cache(fields: &DescriptionFields<'_, '_>, back: WriteBackPolicy) -> BlockCacheSpec {
    let defaults = BlockCacheSpec::default();
    if !fields.has_key("size") {
        fields.report_missing("size", "\"64MB\"");
    }
    let spec = BlockCacheSpec {
        bytes: fields.read_size_bytes("size").unwrap_or(defaults.bytes),
        page_blocks: fields.read_request_blocks("page").unwrap_or(defaults.page_blocks),
        read_ahead: parse_read_ahead(fields, defaults.read_ahead),
        streams: fields.read_integer("streams", 1, u64::from(MAX_STREAMS)).map_or(defaults.streams, |n| n as u32),
        starts_early: fields.read_bool("read_ahead_early").unwrap_or(defaults.starts_early),
        fault_blocks: fields.read_request_blocks("fault"),
        write: parse_write_policy(fields, back),
        reserve_for_writes: fields.read_share("reserve_for_writes").unwrap_or(defaults.reserve_for_writes),
        allocate_on_write: fields.read_bool("keep_written").unwrap_or(defaults.allocate_on_write),
        read_before_partial_write: fields.read_bool("read_before_write").unwrap_or(defaults.read_before_partial_write),
    };
    fields.reject_unknown_keys();
    if let Err(error) = spec.check_limits() {
        fields.report_problem(error.to_string());
    }
    spec
}

/// Parses `read_ahead`: `"none"`, or the longest run, up to which runs double; `read_ahead_from` is the first run.
/// `fetch` reads missing blocks in runs of one length.
fn parse_read_ahead(fields: &DescriptionFields<'_, '_>, defaults: CacheReadAhead) -> CacheReadAhead {
    let fetch = fields.read_request_blocks("fetch");
    let from = fields.read_request_blocks("read_ahead_from");
    if let Some(blocks) = fetch {
        for key in ["read_ahead", "read_ahead_from"].into_iter().filter(|key| fields.has_key(key)) {
            fields.report_key_problem(key, format!("`{key}` and `fetch` both set the read-ahead; use one of them"));
        }
        fields.mark_known(&["read_ahead"]);
        return CacheReadAhead::Fixed { blocks };
    }
    let is_none = fields.read_value("read_ahead").and_then(|v| v.get_ref().as_str()).is_some_and(|text| text == "none");
    if is_none {
        if from.is_some() {
            fields.report_key_problem(
                "read_ahead_from",
                "`read_ahead_from` has no effect with read_ahead = \"none\"; remove it",
            );
        }
        return CacheReadAhead::None;
    }
    let to = fields.read_request_blocks("read_ahead");
    match (defaults, from, to) {
        (_, Some(from), Some(to)) => CacheReadAhead::Doubling { from, to },
        (CacheReadAhead::Doubling { from, .. }, None, Some(to)) => CacheReadAhead::Doubling { from: from.min(to), to },
        (CacheReadAhead::Doubling { to, .. }, Some(from), None) => CacheReadAhead::Doubling { from, to: to.max(from) },
        (defaults, ..) => defaults,
    }
}

/// Parses `write`: `"back"` with its keys, or `"through"`.
fn parse_write_policy(fields: &DescriptionFields<'_, '_>, defaults: WriteBackPolicy) -> WritePolicy {
    const KEYS: [&str; 8] =
        ["dirty_limit", "flush_at", "flush_after", "flush_every", "coalesce", "flush_depth", "flush_order", "battery"];
    let through = fields.read_word("write", &[("back", false), ("through", true)]).unwrap_or(false);
    if through {
        for key in KEYS.into_iter().filter(|key| fields.has_key(key)) {
            fields.report_key_problem(key, format!("`{key}` applies only to write-back: write = \"back\""));
        }
        fields.mark_known(&KEYS);
        return WritePolicy::Through;
    }
    let dirty_limit = fields.read_share("dirty_limit").unwrap_or(defaults.dirty_limit);
    let never_by_age =
        fields.read_value("flush_after").and_then(|v| v.get_ref().as_str()).is_some_and(|text| text == "never");
    let orders = [("address", FlushOrder::Address), ("age", FlushOrder::Age)];
    WritePolicy::Back(WriteBackPolicy {
        dirty_limit,
        flush_at: fields.read_share("flush_at").unwrap_or(defaults.flush_at.min(dirty_limit)),
        flush_every: fields.read_time_ns("flush_every").unwrap_or(defaults.flush_every),
        flush_after: if never_by_age { None } else { fields.read_time_ns("flush_after").or(defaults.flush_after) },
        coalesce_blocks: fields.read_request_blocks("coalesce").unwrap_or(defaults.coalesce_blocks),
        flush_depth: fields.read_integer("flush_depth", 1, 1 << 16).map_or(defaults.flush_depth, |n| n as u32),
        order: fields.read_word("flush_order", &orders).unwrap_or(defaults.order),
        survives_power_loss: fields.read_bool("battery").unwrap_or(defaults.survives_power_loss),
    })
}
