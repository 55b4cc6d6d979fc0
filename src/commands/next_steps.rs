//! What to run after a verdict: the command that acts on it, looks closer, sizes what to buy, or proves the change.

use std::borrow::Cow;
use std::path::PathBuf;

use diskwright_base::text::quote_for_shell;
use diskwright_diagnosis::{Bottleneck, Verdict};
use diskwright_planner::series::measured_demand::MIN_TICKS;
use diskwright_report::text::{display_width, wrap};
use diskwright_report::{Ink, Style};
use serde::Serialize;

use super::local_host_name;

/// A command that comes next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextStep {
    /// What to type.
    pub command: String,
    /// What it shows.
    pub shows: Cow<'static, str>,
}

/// Commands to run after a verdict on these logs, in this order; without logs, the verdict is on this machine as it
/// runs. None if nothing is blamed.
pub fn steps_after(verdict: &Verdict, logs: &[PathBuf], is_store: bool) -> Vec<NextStep> {
    if !verdict.bottleneck.blames() {
        return Vec::new();
    }
    let is_live = logs.is_empty() && !is_store;
    let is_here = is_live || verdict.host == local_host_name();
    // what came through a pipe cannot be read again, and a store has other options
    let can_be_named = !is_store && logs.iter().all(|log| log.as_os_str() != "-");
    let names: Vec<String> = logs.iter().map(|log| quote_for_shell(&log.display().to_string())).collect();
    let names = names.join(" ");
    let mut steps = Vec::new();
    let mut add = |command: String, shows: &'static str| steps.push(NextStep { command, shows: shows.into() });
    let is_set_up =
        blames_storage(verdict) || (verdict.bottleneck == Bottleneck::Memory && verdict.instance.is_empty());
    if is_here && is_set_up {
        add("diskwright advise".into(), "settings of this machine that bear on it, with the way back");
    }
    if is_live && blames_storage(verdict) {
        let disk = blamed_disk(verdict).map_or_else(String::new, |disk| format!(" {}", quote_for_shell(disk)));
        add(format!("diskwright trace{disk} --for 10s"), "each request to the disk, with the thread that sent it");
        add("diskwright record DIR".into(), "a log of the bad hour, for `plan --from DIR` and `compare`");
    }
    if !is_live && can_be_named {
        if blames_storage(verdict) && verdict.window.ticks >= MIN_TICKS as u64 {
            add(format!("diskwright plan --from {names}"), "disks and volumes that carry this load, by cost");
        }
        if logs.len() == 1 {
            add(format!("diskwright compare {names} AFTER"), "after a change: whether it helped");
        }
    }
    steps
}

/// Commands to run after a verdict on another host, which is asked by this name; `has_program` if our program is there.
pub fn steps_for_host(verdict: &Verdict, host: &str, has_program: bool) -> Vec<NextStep> {
    if !verdict.bottleneck.blames() {
        return Vec::new();
    }
    let host = quote_for_shell(host);
    let mut steps = Vec::new();
    let mut add = |command: String, shows: &'static str| steps.push(NextStep { command, shows: shows.into() });
    add(format!("diskwright advise --ssh {host}"), "settings of the host that bear on it, with the way back");
    if blames_storage(verdict) {
        if has_program {
            let disk = blamed_disk(verdict).map_or_else(String::new, |disk| format!(" {}", quote_for_shell(disk)));
            let command = format!("diskwright trace{disk} --ssh {host} --for 10s");
            add(command, "each request to the disk, with the thread that sent it");
        }
        add(
            format!("diskwright record DIR --ssh {host}"),
            "a log of the bad hour, for `plan --from DIR` and `compare`",
        );
    }
    steps
}

/// True where something that stores or carries data is among what is blamed.
pub fn blames_storage(verdict: &Verdict) -> bool {
    verdict.bottlenecks.iter().any(|listed| verdict.is_of_storage(listed))
}

/// The disk that is blamed first; `None` where it is not one disk.
fn blamed_disk(verdict: &Verdict) -> Option<&str> {
    let listed = verdict.bottlenecks.iter().find(|listed| listed.bottleneck == Bottleneck::Disk)?;
    Some(listed.instance.as_str()).filter(|instance| !instance.is_empty())
}

/// Draws the steps with a heading, one row each on a wide screen.
pub fn draw_steps(steps: &[NextStep], style: &Style) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", style.paint(Ink::Bold, "Next"));
    for NextStep { command, shows } in steps {
        let command = style.clean_text(command);
        if display_width(&command) + display_width(shows) + 6 <= style.width {
            out += &format!("  {command}  {}\n", style.paint(Ink::Dim, shows));
        } else {
            // a command that does not fit is not broken: half of one cannot be typed
            out += &format!("  {command}\n");
            wrap(shows, style.width.saturating_sub(6), 0).iter().for_each(|line| out += &format!("      {line}\n"));
        }
    }
    out
}

/// Draws the first step in one row, for a screen that has no room for more; empty if it does not fit.
pub fn draw_first_step(steps: &[NextStep], style: &Style) -> String {
    let commands: Vec<String> = steps.iter().map(|step| format!("`{}`", step.command)).collect();
    for count in (1..=commands.len()).rev() {
        let line = style.clean_text(&format!("Next: {}", commands[..count].join(", ")));
        if display_width(&line) <= style.width {
            return format!("{}\n", style.paint(Ink::Dim, &line));
        }
    }
    String::new()
}
