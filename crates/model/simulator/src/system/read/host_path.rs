//! The path between programs and drives: host, buses, controllers, channels.

use super::MAX_TABLES;
use super::caches;
use super::part_names::PartNames;
use crate::cache::WriteBackPolicy;
use crate::description_toml::DescriptionFields;
use crate::system::{Bus, Channel, Controller, HostSpec, TransferMode};

/// Parses `[host]`.
pub(super) fn parse_host(fields: &DescriptionFields<'_, '_>) -> HostSpec {
    let defaults = HostSpec::default();
    let host = HostSpec {
        processors: fields.read_integer("processors", 1, 4096).map_or(defaults.processors, |n| n as u32),
        request_ns: fields.read_time_ns("request").unwrap_or(defaults.request_ns),
        interrupt_ns: fields.read_time_ns("interrupt").unwrap_or(defaults.interrupt_ns),
        copy_byte_ps: fields.read_ps_per_byte("copy").unwrap_or(defaults.copy_byte_ps),
        xor_byte_ps: fields.read_ps_per_byte("xor").unwrap_or(defaults.xor_byte_ps),
        gf_mul_byte_ps: fields.read_ps_per_byte("galois").unwrap_or(defaults.gf_mul_byte_ps),
        other_interrupts_per_s: fields.read_per_s("other_interrupts").unwrap_or(defaults.other_interrupts_per_s),
        cache: fields.read_table("cache").map(|cache| caches::parse_cache(&cache, WriteBackPolicy::default())),
        transfer_blocks: fields.read_request_blocks("largest"),
        memory_rate: fields.read_bytes_per_s("memory_rate"),
    };
    fields.reject_unknown_keys();
    host
}

/// Calls `read` with the fields of each table of a list, at most [`MAX_TABLES`].
pub(super) fn for_each_table<'a, 't>(
    top: &DescriptionFields<'a, 't>,
    key: &'static str,
    mut read: impl FnMut(&DescriptionFields<'a, 't>),
) {
    let tables = top.read_tables(key);
    if tables.len() > MAX_TABLES {
        top.report_key_problem(key, format!("there are {} [[{key}]] tables; the limit is {MAX_TABLES}", tables.len()));
    }
    for (number, value) in tables.into_iter().take(MAX_TABLES).enumerate() {
        let name = value.get_ref().as_table().and_then(|t| t.iter().find(|(k, _)| k.get_ref() == "name"));
        let item = match name.and_then(|(_, v)| v.get_ref().as_str()) {
            Some(name) => format!("{key} `{}`", name.chars().take(40).collect::<String>()),
            None => format!("{key} {}", number + 1),
        };
        if let Some(fields) = DescriptionFields::from_value(top.source, &item, value) {
            read(&fields);
            fields.reject_unknown_keys();
        }
    }
}

/// Parses `[[bus]]`.
pub(super) fn parse_buses(top: &DescriptionFields<'_, '_>, names: &mut PartNames) -> Vec<Bus> {
    let mut buses = Vec::new();
    for_each_table(top, "bus", |fields| {
        let name = names.buses.add_name(fields, "bus", &[]);
        if !fields.has_key("rate") {
            fields.report_missing("rate", "\"133MB/s\"");
        }
        let rate = fields.read_bytes_per_s("rate").unwrap_or(1);
        buses.push(Bus { name, rate, overhead_ns: fields.read_time_ns("overhead").unwrap_or(0) });
    });
    buses
}

/// Parses `[[controller]]`.
pub(super) fn parse_controllers(top: &DescriptionFields<'_, '_>, names: &mut PartNames) -> Vec<Controller> {
    let mut controllers = Vec::new();
    for_each_table(top, "controller", |fields| {
        let name = names.controllers.add_name(fields, "controller", &[]);
        controllers.push(Controller {
            name,
            bus: names.buses.parse_reference(fields, "bus"),
            command_ns: fields.read_time_ns("command").unwrap_or(0),
            member_command_ns: fields.read_time_ns("member_command").unwrap_or(0),
            rate: fields.read_bytes_per_s("rate"),
            xor_byte_ps: fields.read_ps_per_byte("xor").unwrap_or(0),
            gf_mul_byte_ps: fields.read_ps_per_byte("galois").unwrap_or(0),
            cache: fields
                .read_table("cache")
                .map(|cache| caches::parse_cache(&cache, WriteBackPolicy::battery_backed())),
            max_outstanding: fields.read_integer("outstanding", 1, 1 << 20).map(|n| n as u32),
            transfer_blocks: fields.read_request_blocks("largest"),
            transfer: parse_transfer_mode(fields),
        });
    });
    controllers
}

/// Parses the transfer mode: `transfer`, `interrupt_each`, `byte`.
fn parse_transfer_mode(fields: &DescriptionFields<'_, '_>) -> TransferMode {
    let is_pio = fields.read_word("transfer", &[("dma", false), ("pio", true)]).unwrap_or(false);
    let interrupt_blocks = fields.read_request_blocks("interrupt_each");
    let byte = fields.read_ps_per_byte("byte");
    if is_pio {
        if !fields.has_key("byte") {
            fields.report_missing("byte", "\"250ns/B\" (with transfer = \"pio\" a processor moves every byte)");
        }
        return TransferMode::Pio { interrupt_blocks: interrupt_blocks.unwrap_or(1), byte_ps: byte.unwrap_or(0) };
    }
    if byte.is_some() {
        fields.report_key_problem("byte", "`byte`, a processor's time per byte, applies only to transfer = \"pio\"");
    }
    TransferMode::Dma { interrupt_blocks }
}

/// Parses `[[channel]]`.
pub(super) fn parse_channels(top: &DescriptionFields<'_, '_>, names: &mut PartNames) -> Vec<Channel> {
    let mut channels = Vec::new();
    for_each_table(top, "channel", |fields| {
        channels.push(Channel {
            name: names.channels.add_name(fields, "channel", &[]),
            controller: names.controllers.parse_reference(fields, "controller"),
            rate: fields.read_bytes_per_s("rate"),
            overhead_ns: fields.read_time_ns("overhead").unwrap_or(0),
            disconnects: fields.read_bool("disconnects").unwrap_or(true),
        });
    });
    channels
}
