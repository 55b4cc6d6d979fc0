//! What a log of Windows can show is explained in the words of Windows: no files and no commands of Linux.

use diskwright_diagnosis::recording_hints::{LogOrigin, recording_instructions};
use diskwright_diagnosis::rule::{Condition, RuleLimit};
use diskwright_diagnosis::{Rule, packs};

/// Words that only Linux has.
const LINUX_WORDS: [&str; 33] = [
    "/proc",
    "/sys/",
    "vmstat",
    "iostat",
    "pidstat",
    "mpstat",
    "`top",
    "`ps ",
    "`ss ",
    "perf top",
    "ethtool",
    "dmesg",
    "cgroup",
    "systemd",
    "sysctl",
    "vm.",
    "smartctl",
    "mdadm",
    "ionice",
    "iowait",
    "blocked tasks",
    "swap",
    "scheduler",
    "fstrim",
    "kswapd",
    "fsync",
    "io_uring",
    "O_DIRECT",
    "tmpfs",
    "bcache",
    "pressure stall",
    "`sensors`",
    "max_sectors_kb",
];
/// Objects of which Windows has counters.
const OBJECTS: [&str; 5] = ["machine", "physical_disk", "logical_disk", "processor", "network"];
/// Quantities without a counter of their own that any log with such objects has, and counters that options give.
const KNOWN_ANYWAY: [&str; 15] = [
    "spindles",
    "processors",
    "memory_bytes",
    "back_end_load",
    "member_load",
    "waiting_unseen",
    "paging_unseen",
    "disks_unseen",
    "page_share",
    "twin_latency_ratio",
    "light_load_s",
    "light_load_bytes",
    "busy_steadiness",
    "clock_per_s",
    "network_per_s",
];

/// True where Performance Monitor can record all counters of a condition.
fn is_recordable(condition: &Condition) -> bool {
    let limit = match &condition.limit {
        RuleLimit::Counter { counter, .. } => Some(counter),
        _ => None,
    };
    condition.quantity.counters().chain(limit).all(|counter| {
        let name = counter.id.rsplit('.').next().unwrap_or_default();
        let instructions = || recording_instructions(&[counter.id.as_str()], LogOrigin::Perfmon);
        KNOWN_ANYWAY.contains(&name) || instructions().iter().any(|line| line.starts_with("`typeperf"))
    })
}

/// True where a rule may hold in a log of Performance Monitor.
fn may_hold(rule: &Rule) -> bool {
    OBJECTS.contains(&rule.object.as_str())
        && rule.all.iter().all(is_recordable)
        && (rule.any.is_empty() || rule.any.iter().any(is_recordable))
}

fn linux_words(text: &str) -> Vec<&'static str> {
    LINUX_WORDS.into_iter().filter(|word| text.contains(word)).collect()
}

#[test]
fn what_windows_can_show_is_explained_in_its_words() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for pack in packs::builtin_packs().expect("valid") {
        for rule in pack.rules.iter().filter(|rule| may_hold(rule)) {
            checked += 1;
            let mut check = |what: &str, text: &str| {
                let words = linux_words(text);
                if !words.is_empty() {
                    wrong.push(format!("{}/{}, {what}: {words:?}: {text}", pack.id, rule.id));
                }
            };
            // what an authority says of its own limits stays as it is
            if pack.id == "default" {
                check("title", &rule.title);
                check("explain", rule.explain_for(LogOrigin::Perfmon));
            }
            for advice in pack.advice.iter().filter(|advice| rule.advice.contains(&advice.id)) {
                let text = advice.windows.as_deref().unwrap_or(&advice.text);
                check(&format!("advice {}", advice.id), text);
            }
        }
    }
    assert!(checked > 100, "only {checked} rules");
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// A rule may explain itself to Windows in words of its own; other logs get the others.
#[test]
fn a_rule_is_explained_in_the_words_of_the_log() {
    let pack = packs::builtin_pack("default").expect("there").expect("valid");
    let rule = pack.find_rule("interrupts.half").expect("there");
    assert!(rule.explain_for(LogOrigin::Sysstat).contains("/proc/interrupts"));
    assert!(rule.explain_for(LogOrigin::Perfmon).contains("% DPC Time"));
}
