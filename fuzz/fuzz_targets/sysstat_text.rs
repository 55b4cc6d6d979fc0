#![no_main]

#[path = "../targets.rs"]
#[allow(dead_code, reason = "each target uses one function of the file")]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::read_sysstat_text(data));
