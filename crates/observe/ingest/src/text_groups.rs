//! The machines and runs of pasted texts. Each is a log of its own: output of two machines, or from before and after a
//! change, is never laid on one timeline.

use diskwright_base::text::is_same_host;

use crate::given_log::{GivenLog, HeldSection};
use crate::pasted_text::format_lines;

/// Output of one machine, or of one run that a person named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextGroup {
    /// Machine; empty if nothing names it.
    pub host: String,
    /// What a person wrote above the run; empty if there is no name.
    pub run_name: String,
    /// First and last line in the text; `None` for output of several files.
    pub lines: Option<(usize, usize)>,
    run: usize,
    /// Indices of its logs.
    pub(crate) logs: Vec<usize>,
}

impl TextGroup {
    /// Order in time that its name tells: -1 for one like `before`, 1 for one like `after`, 0 where it tells nothing.
    pub fn told_order(&self) -> i8 {
        diskwright_logs::transcript::order_of_label(&self.run_name)
    }

    /// Name in messages: `db2, "after the change" (lines 7-12)`.
    pub fn name(&self) -> String {
        let run = if self.run_name.is_empty() { String::new() } else { format!("\"{}\"", self.run_name) };
        let parts: Vec<&str> = [self.host.as_str(), run.as_str()].into_iter().filter(|part| !part.is_empty()).collect();
        match (self.lines, parts.is_empty()) {
            (Some(lines), true) => format_lines(lines),
            (Some(lines), false) => format!("{} ({})", parts.join(", "), format_lines(lines)),
            (None, _) => parts.join(", "),
        }
    }
}

/// Groups logs by machine and run, in order of appearance; none unless all of them are sections of texts.
pub fn group_logs(logs: &[GivenLog], wanted_host: Option<&str>) -> Vec<TextGroup> {
    let sections: Option<Vec<&HeldSection>> = logs.iter().map(GivenLog::section).collect();
    let Some(sections) = sections.filter(|_| !logs.is_empty()) else { return Vec::new() };
    let is_one_text = logs.iter().all(|log| log.path == logs[0].path);
    let mut groups: Vec<TextGroup> = Vec::new();
    for (index, section) in sections.into_iter().enumerate() {
        let run = if is_one_text { section.run } else { 0 };
        let is_same = |group: &TextGroup| {
            group.run == run && (group.host == section.host || is_same_host(&group.host, &section.host))
        };
        let place = groups.iter().position(is_same).unwrap_or_else(|| {
            groups.push(TextGroup {
                host: section.host.clone(),
                run_name: if is_one_text { section.run_name.clone() } else { String::new() },
                lines: is_one_text.then_some(section.lines),
                run,
                logs: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[place];
        group.logs.push(index);
        group.lines = group.lines.map(|(from, until)| (from.min(section.lines.0), until.max(section.lines.1)));
    }
    let is_wanted = |group: &TextGroup| wanted_host.is_none_or(|host| is_same_host(host, &group.host));
    if groups.iter().any(is_wanted) {
        groups.retain(is_wanted);
    }
    groups
}
