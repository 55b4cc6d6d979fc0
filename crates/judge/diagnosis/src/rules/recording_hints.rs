//! Instructions for recording counters that a log lacked, in the terms of the program that made the log. The texts are
//! data: `rules/record.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use diskwright_base::catalogue::{CounterNames, FormulaDivisor};
use diskwright_base::{Catalogue, Counter};
use serde::Deserialize;

use crate::rules::bottleneck_proof::BottleneckProof;
pub use crate::rules::log_origin::{LogOrigin, MissingCounters};
use crate::rules::pseudo_counters::SPINDLES_COUNTER;

impl LogOrigin {
    const ALL: [(&str, LogOrigin); 12] = [
        ("live", LogOrigin::Live),
        ("perfmon", LogOrigin::Perfmon),
        ("sysstat", LogOrigin::Sysstat),
        ("pcp", LogOrigin::Pcp),
        ("prometheus", LogOrigin::Prometheus),
        ("dstat", LogOrigin::Dstat),
        ("nmon", LogOrigin::Nmon),
        ("collectl", LogOrigin::Collectl),
        ("atop", LogOrigin::Atop),
        ("loop", LogOrigin::Loop),
        ("top", LogOrigin::Top),
        ("unix", LogOrigin::Unix),
    ];

    /// Origin for a format id, as a [`diskwright_base::Note::SOURCE`] note has it.
    pub fn from_format(format: &str) -> LogOrigin {
        let has_format = |hints: &&OriginHints| hints.formats.iter().any(|start| format.starts_with(start.as_str()));
        let found = recording_data().source.iter().find(has_format);
        let origin =
            |hints: &OriginHints| LogOrigin::ALL.iter().find(|(id, _)| *id == hints.id).map(|(_, source)| *source);
        found.and_then(origin).unwrap_or(LogOrigin::Unknown)
    }

    fn recording_hints(self) -> Option<&'static OriginHints> {
        let (id, _) = LogOrigin::ALL.iter().find(|(_, source)| *source == self)?;
        recording_data().source.iter().find(|hints| hints.id == *id)
    }

    /// Name of the program, for users.
    pub fn title(self) -> &'static str {
        self.recording_hints().map_or("an unknown program", |hints| hints.title.as_str())
    }
}

/// Instruction for logs that do not show how many disks are behind a device.
const ARRAY_HINT: &str = "this log does not show how many disks are behind a controller: run again with `--array \
                      'PhysicalDisk(0)=raid5:3'`, or with `--array '*=single'` if each is a single disk";

impl MissingCounters {
    /// Collects counters that were not recorded in a log of this origin; repeated ones count once.
    pub fn from_counters<'a>(unrecorded: impl Iterator<Item = &'a str>, source: LogOrigin) -> MissingCounters {
        let mut counters: Vec<String> = unrecorded.map(str::to_owned).collect();
        counters.sort_unstable();
        counters.dedup();
        // no tool records the number of spindles: the user has to give it
        let plan =
            RecordingPlan::new(counters.iter().map(String::as_str).filter(|name| *name != SPINDLES_COUNTER), source);
        let mut instructions = plan.command_lines();
        if counters.iter().any(|name| name == SPINDLES_COUNTER) {
            instructions.push(ARRAY_HINT.into());
        }
        MissingCounters {
            source,
            instructions,
            unavailable: plan.unavailable_reasons(),
            summary: plan.summary_text(),
            counters,
        }
    }
}

/// Instructions for recording counters with the program that made the log: commands and settings, then the counters
/// that this program cannot provide.
pub fn recording_instructions(counters: &[&str], source: LogOrigin) -> Vec<String> {
    let plan = RecordingPlan::new(counters.iter().copied(), source);
    let mut lines = plan.command_lines();
    lines.extend(plan.unavailable_reasons());
    lines
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordingData {
    source: Vec<OriginHints>,
    made_of: Vec<CounterParts>,
    never: Vec<UnavailableCounter>,
    pub(crate) proof: Vec<BottleneckProof>,
}

/// Texts for one origin of logs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginHints {
    id: String,
    title: String,
    formats: Vec<String>,
    names: NameVocabulary,
    #[serde(rename = "every")]
    every_tool: bool,
    #[serde(rename = "short")]
    summary_template: String,
    tool: Vec<Tool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NameVocabulary {
    Nt,
    Sysstat,
    Prometheus,
    Pcp,
    Linux,
}

impl NameVocabulary {
    fn names_in(self, names: &CounterNames) -> &[String] {
        match self {
            NameVocabulary::Nt => &names.nt,
            NameVocabulary::Sysstat => &names.sysstat,
            NameVocabulary::Prometheus => &names.prometheus,
            NameVocabulary::Pcp => &names.pcp,
            NameVocabulary::Linux => &names.linux,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct Tool {
    #[serde(rename = "line")]
    command: String,
    #[serde(rename = "also")]
    extra_line: String,
    #[serde(rename = "join")]
    flag_separator: String,
    #[serde(rename = "reads_join")]
    read_separator: String,
    #[serde(rename = "names_join")]
    name_separator: String,
    group: Vec<ToolGroup>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ToolGroup {
    /// Names that belong to this group.
    #[serde(rename = "is")]
    exact_names: Vec<String>,
    /// Parts of names; a name that contains one belongs to this group.
    #[serde(rename = "holds")]
    name_parts: Vec<String>,
    /// Counters that the group provides without a name of their own.
    #[serde(rename = "gives")]
    counter_ids: Vec<String>,
    flag: String,
    #[serde(rename = "read")]
    read_path: String,
    #[serde(rename = "form")]
    name_template: String,
    #[serde(rename = "what")]
    summary: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CounterParts {
    id: String,
    #[serde(default)]
    any: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnavailableCounter {
    id: String,
    because: String,
}

/// Texts of `rules/record.toml`.
///
/// # Panics
/// Where `rules/record.toml` is wrong, which a test excludes.
pub(crate) fn recording_data() -> &'static RecordingData {
    static DATA: OnceLock<RecordingData> = OnceLock::new();
    DATA.get_or_init(|| {
        diskwright_base::toml_reader::read_built_in(
            "rules/record.toml",
            include_str!("../../../../../rules/record.toml"),
        )
    })
}

/// Position of a tool, position of a group in it, and the counter's name in the tool's vocabulary; the name is empty
/// where the group provides the counter without a name.
type GroupMatch = (usize, usize, String);

/// Largest depth of formulas within formulas.
const MAX_DEPTH: usize = 4;

impl OriginHints {
    /// Groups of a tool that provide a counter: by its name, or the counters that it is computed from.
    fn find_groups(&self, tool: usize, id: &str, depth: usize) -> Option<Vec<GroupMatch>> {
        let counter = Catalogue::builtin().get(id)?;
        self.find_group_by_name(tool, counter).map(|found| vec![found]).or_else(|| {
            let formulas = counter.derive.iter().filter(|_| depth > 0);
            formulas
                .filter_map(|derive| {
                    let mut groups = Vec::new();
                    for part in derive.sum.iter().chain(&derive.minus) {
                        groups.extend(self.find_groups(tool, part, depth - 1)?);
                    }
                    if let FormulaDivisor::Counters(ids) = &derive.per {
                        let parts: Vec<GroupMatch> =
                            ids.iter().filter_map(|part| self.find_groups(tool, part, depth - 1)).flatten().collect();
                        groups.extend((!parts.is_empty()).then_some(parts)?);
                    }
                    Some(groups)
                })
                .next()
        })
    }

    fn find_group_by_name(&self, tool: usize, counter: &Counter) -> Option<GroupMatch> {
        let groups = &self.tool[tool].group;
        let group_for_name = |name: &String| {
            let has_name = |g: &ToolGroup| {
                g.exact_names.contains(name) || g.name_parts.iter().any(|part| name.contains(part.as_str()))
            };
            groups.iter().position(has_name).map(|group| (tool, group, name.clone()))
        };
        let unnamed_group = || groups.iter().position(|g| g.counter_ids.contains(&counter.id));
        let named_group = self.names.names_in(&counter.names).iter().find_map(group_for_name);
        named_group.or_else(|| unnamed_group().map(|group| (tool, group, String::new())))
    }
}

/// Counters to record, sorted into the tools of an origin.
struct RecordingPlan {
    source: LogOrigin,
    hints: Option<&'static OriginHints>,
    found: Vec<GroupMatch>,
    unavailable: Vec<String>,
}

impl RecordingPlan {
    fn new<'c>(counters: impl Iterator<Item = &'c str>, source: LogOrigin) -> RecordingPlan {
        let mut plan =
            RecordingPlan { source, hints: source.recording_hints(), found: Vec::new(), unavailable: Vec::new() };
        for counter in counters {
            let is_available = match counter_parts(counter) {
                Some(made) if !made.any.is_empty() => made.any.iter().any(|part| plan.add_counter(part)),
                // `fold` and not `all`: every part is added even where an earlier one is unavailable
                Some(made) => {
                    made.all.iter().map(|part| plan.add_counter(part)).fold(true, |all, is_added| all & is_added)
                }
                None => plan.add_counter(counter),
            };
            if !is_available {
                plan.unavailable.push(counter.to_owned());
            }
        }
        plan.found.sort_unstable();
        plan.found.dedup();
        plan
    }

    /// Adds the groups that provide a counter; false where none does.
    fn add_counter(&mut self, counter: &str) -> bool {
        let Some(hints) = self.hints else { return false };
        let mut matches = (0..hints.tool.len()).filter_map(|tool| hints.find_groups(tool, counter, MAX_DEPTH));
        let found: Vec<GroupMatch> =
            if hints.every_tool { matches.flatten().collect() } else { matches.next().unwrap_or_default() };
        self.found.extend_from_slice(&found);
        !found.is_empty()
    }

    /// The tools in use with their groups and names.
    fn used_tools(&self) -> BTreeMap<usize, Vec<(&'static ToolGroup, &str)>> {
        let mut used: BTreeMap<usize, Vec<(&ToolGroup, &str)>> = BTreeMap::new();
        for (tool, group, name) in &self.found {
            if let Some(hints) = self.hints {
                used.entry(*tool).or_default().push((&hints.tool[*tool].group[*group], name));
            }
        }
        used
    }

    fn command_lines(&self) -> Vec<String> {
        let Some(hints) = self.hints else {
            if self.unavailable.is_empty() {
                return Vec::new();
            }
            return vec!["`diskwright record DIR` on Linux records everything that the rules need".into()];
        };
        let mut lines = Vec::new();
        for (index, groups) in self.used_tools() {
            let tool = &hints.tool[index];
            let list = |join: &str, part: &dyn Fn(&ToolGroup, &str) -> String| {
                let mut parts: Vec<String> = Vec::new();
                for (group, name) in &groups {
                    let text = part(group, name);
                    if !text.is_empty() && !parts.contains(&text) {
                        parts.push(text);
                    }
                }
                parts.join(join)
            };
            let flags = list(&tool.flag_separator, &|group, _| group.flag.clone());
            let reads = list(&tool.read_separator, &|group, _| group.read_path.clone());
            let names = list(&tool.name_separator, &format_name);
            lines.push(tool.command.replace("{flags}", &flags).replace("{reads}", &reads).replace("{names}", &names));
            lines.extend((!tool.extra_line.is_empty()).then(|| tool.extra_line.clone()));
        }
        lines
    }

    fn summary_text(&self) -> String {
        let Some(hints) = self.hints else { return String::new() };
        let mut words: Vec<String> = Vec::new();
        for (group, name) in self.used_tools().into_values().flatten() {
            let word = group.summary.replace("{object}", name.split('\\').next().unwrap_or_default());
            if !word.is_empty() && !words.contains(&word) {
                words.push(word);
            }
        }
        if words.is_empty() { String::new() } else { hints.summary_template.replace("{what}", &words.join(", ")) }
    }

    /// One sentence for each reason why counters are unavailable.
    fn unavailable_reasons(&self) -> Vec<String> {
        let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
        for counter in &self.unavailable {
            let known = recording_data().never.iter().find(|never| counter.contains(&never.id));
            let because = match known {
                Some(never) => never.because.clone(),
                None if self.hints.is_none() => continue,
                None => format!("{} has no such counter", self.source.title()),
            };
            match by_reason.iter_mut().find(|(reason, _)| *reason == because) {
                Some((_, counters)) => counters.push(counter),
                None => by_reason.push((because, vec![counter])),
            }
        }
        by_reason.into_iter().map(|(because, counters)| format!("{because}: {}", counters.join(", "))).collect()
    }
}

/// A name in the form that its group uses.
fn format_name(group: &ToolGroup, name: &str) -> String {
    let (object, counter) = name.split_once('\\').unwrap_or(("", name));
    match group.name_template.as_str() {
        "" => name.to_owned(),
        form => form.replace("{name}", name).replace("{object}", object).replace("{counter}", counter),
    }
}

/// Counters that make up a quantity which is no counter of the catalogue.
fn counter_parts(counter: &str) -> Option<&'static CounterParts> {
    let (_, short) = counter.split_once('.')?;
    recording_data().made_of.iter().find(|made| made.id == short && Catalogue::builtin().get(counter).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(counters: &[&str], source: LogOrigin) -> String {
        recording_instructions(counters, source).join("\n")
    }

    #[test]
    fn formats_have_their_sources() {
        for (format, source) in [
            ("perfmon-text", LogOrigin::Perfmon),
            ("perfmon-blg", LogOrigin::Perfmon),
            ("sadf-json", LogOrigin::Sysstat),
            ("sa-binary", LogOrigin::Sysstat),
            ("iostat-text", LogOrigin::Sysstat),
            ("pcp", LogOrigin::Pcp),
            ("prometheus-text", LogOrigin::Prometheus),
            ("dstat-csv", LogOrigin::Dstat),
            ("nmon", LogOrigin::Nmon),
            ("collectl-raw", LogOrigin::Collectl),
            ("atop-text", LogOrigin::Atop),
            ("proc-loop", LogOrigin::Loop),
            ("top-text", LogOrigin::Top),
            ("unix-sar", LogOrigin::Unix),
            ("blktrace", LogOrigin::Unknown),
        ] {
            assert_eq!(LogOrigin::from_format(format), source, "{format}");
        }
    }

    #[test]
    fn a_loop_is_told_which_files_to_dump() {
        let text = how(&["physical_disk.busy", "memory.available_bytes", "paging.swap_in_pages"], LogOrigin::Loop);
        let files = "cat /proc/diskstats /proc/meminfo /proc/vmstat; done > FILE";
        assert!(text.contains("date +%s") && text.contains(files), "{text}");
        // pressure is of no use to it: the files of the three kinds look alike
        let text = how(&["pressure.io_some"], LogOrigin::Loop);
        assert!(text.contains("diskwright record"), "{text}");
    }

    #[test]
    fn other_systems_are_told_which_tool_shows_a_disk() {
        let text = how(&["physical_disk.avg_s_per_transfer", "processor.idle"], LogOrigin::Unix);
        for tool in ["iostat -xn -T d 10", "iostat -x -w 10", "iostat -T 10", "sar -u 10"] {
            assert!(text.contains(tool), "{tool}: {text}");
        }
    }

    #[test]
    fn windows_is_given_counter_paths() {
        let text = how(
            &["physical_disk.avg_queue_length", "memory.available_bytes", "physical_disk.busy", "pressure.io_some"],
            LogOrigin::Perfmon,
        );
        let paths = r#"`typeperf -si 15 -f CSV -o next.csv "\Memory\Available Bytes" "\PhysicalDisk(*)\% Idle Time" "#;
        assert!(text.starts_with(paths), "{text}");
        assert!(text.contains(r#""\PhysicalDisk(*)\Avg. Disk Queue Length""#), "{text}");
        assert!(text.contains("Windows Performance Monitor has no such counter: pressure.io_some"), "{text}");
    }

    #[test]
    fn sysstat_is_given_flags() {
        let text = how(
            &["physical_disk.avg_queue_length", "pressure.io_some", "logical_disk.free_fraction"],
            LogOrigin::Sysstat,
        );
        assert!(text.contains("`sadc -S DISK,XDISK 10 FILE`"), "{text}");
        assert!(text.contains("-- -d -F -q ALL`"), "{text}");
        let text = how(&["physical_disk.avg_s_per_flush"], LogOrigin::Sysstat);
        assert!(text.contains("iostat -x -t -o JSON 10 > FILE` provides f_await"), "{text}");
        assert!(how(&["physical_disk.stalled"], LogOrigin::Sysstat).contains("no such counter: physical_disk.stalled"));
    }

    #[test]
    fn pcp_and_exporters_are_given_what_formulas_need() {
        let text = how(&["physical_disk.avg_s_per_read"], LogOrigin::Pcp);
        assert!(text.contains("{ disk.dev.read disk.dev.read_rawactive }"), "{text}");
        let text = how(&["physical_disk.avg_s_per_transfer", "machine.waiting"], LogOrigin::Prometheus);
        assert!(text.contains("node_exporter --collector.diskstats --collector.pressure` provides"), "{text}");
        assert!(text.contains("node_disk_reads_completed_total"), "{text}");
        assert!(text.contains("--collectors.enabled=physical_disk` provides"), "{text}");
    }

    #[test]
    fn a_live_machine_is_told_what_its_kernel_lacks() {
        let text = how(&["pressure.io_some", "physical_disk.ceiling.requests_per_s"], LogOrigin::Live);
        assert!(text.contains("psi=1"), "{text}");
        assert!(text.contains("no probe has measured this disk: physical_disk.ceiling.requests_per_s"), "{text}");
    }

    #[test]
    fn tools_are_given_their_options() {
        let wanted =
            ["physical_disk.avg_s_per_read", "memory.available_bytes", "memory.free_bytes", "pressure.io_some"];
        for (source, given, lacks) in [
            (LogOrigin::Dstat, "dool --epoch --bytes --full -dr --disk-wait -m --output FILE 10", "pressure.io_some"),
            (LogOrigin::Nmon, "nmon -f -t -s 10 -c 8640", "physical_disk.avg_s_per_read"),
            (LogOrigin::Collectl, "collectl -s dm -i 10 -f DIR", "pressure.io_some"),
            (LogOrigin::Atop, "atop -w FILE 10", "physical_disk.avg_s_per_read"),
        ] {
            let text = how(&wanted, source);
            assert!(text.contains(given) && text.contains("has no such counter"), "{source:?}: {text}");
            assert!(text.lines().any(|l| l.contains("no such counter") && l.contains(lacks)), "{source:?}: {text}");
        }
        let text = how(&["physical_disk.avg_queue_length", "memory.free_bytes"], LogOrigin::Atop);
        assert!(text.contains("`atop -w FILE 10`") && !text.contains("no such counter"), "{text}");
    }

    #[test]
    fn a_short_summary_names_what_to_record() {
        let counters = ["physical_disk.busy", "memory.free_bytes", "physical_disk.busy"];
        let missing = MissingCounters::from_counters(counters.into_iter(), LogOrigin::Perfmon);
        assert_eq!(missing.counters, ["memory.free_bytes", "physical_disk.busy"]);
        assert!(missing.summary.contains("PhysicalDisk"), "{}", missing.summary);
        assert!(MissingCounters::from_counters([].into_iter(), LogOrigin::Perfmon).instructions.is_empty());
    }

    /// Every counter of every pack has instructions, or a reason, for every origin.
    #[test]
    fn every_counter_of_every_pack_has_instructions_for_every_origin() {
        for pack in crate::rules::packs::builtin_packs().unwrap() {
            for rule in &pack.rules {
                for name in rule.conditions().flat_map(|c| c.quantity.counters()) {
                    for (_, source) in LogOrigin::ALL {
                        let lines = recording_instructions(&[name.id.as_str()], source);
                        assert!(!lines.is_empty(), "{}: {} of {source:?}", rule.id, name.id);
                        let left =
                            |l: &String| ["{flags}", "{reads}", "{names}", "{object}"].iter().any(|p| l.contains(p));
                        assert!(!lines.iter().any(left), "{lines:?}");
                    }
                }
            }
        }
    }
}
