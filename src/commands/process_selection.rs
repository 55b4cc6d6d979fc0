//! Processes among the selected counters (`process.*`).

use diskwright_base::Catalogue;
use diskwright_base::units::format_count;

use super::log::Logs;
use super::output;

/// True if one of these patterns selects processes.
pub fn are_processes_wanted(patterns: &[String]) -> bool {
    let is_process = |pattern: &str| is_process_counter(pattern) || pattern == "process*";
    // a name that disks and processes share keeps its meaning without processes
    let names_process_counters = |pattern: &str| {
        let counters = Catalogue::builtin().find_by_exact_name(pattern);
        !counters.is_empty() && counters.iter().all(|counter| is_process(&counter.id))
    };
    patterns.iter().any(|pattern| is_process(&pattern.to_ascii_lowercase()) || names_process_counters(pattern))
}

/// True for a counter of a process. If only such counters are selected, ticks between two process tables would be rows
/// without any value.
pub fn is_process_counter(id: &str) -> bool {
    id.starts_with("process.")
}

/// Reports how many processes did too little to be shown.
pub fn report_left_out(logs: &Logs) {
    let count = logs.processes_left_out();
    if count > 0 {
        let more = format_count(count as u64, "more process did less and is", "more processes did less and are");
        output::print_warning(format_args!("{more} left out"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_processes_only_on_request() {
        let wanted = |pattern: &str| are_processes_wanted(&[pattern.to_owned()]);
        assert!(wanted("process.processor") && wanted("process.*") && wanted("process*"));
        assert!(wanted("PROCESS.*") && wanted("Process.Resident_Bytes") && wanted("resident_bytes"));
        assert!(!wanted("read_bytes_per_s"));
        assert!(!wanted("processor.busy") && !wanted("*"));
    }
}
