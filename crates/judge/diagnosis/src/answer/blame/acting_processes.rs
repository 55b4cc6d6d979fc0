//! The processes that a command acts on: those that make up most of the blamed activity and can share one command.

use diskwright_base::kernel_threads::is_kernel_thread;

use crate::answer::verdict::Culprit;
use crate::culprits::CulpritProcess;
use crate::rules::{Bottleneck, is_batch_program, is_server_program};

/// Minimum share of the blamed activity: of a program that a command acts on, and of several such programs together.
const MIN_ACTING_SHARE: f64 = 0.2;
const MIN_SHARE_TOGETHER: f64 = 0.5;
/// Minimum activity of a further process, as a share of that of the most active one. One with less is not to blame.
const MIN_EQUAL_SHARE: f64 = 0.5;
/// Maximum number of processes in a command.
const MAX_ACTING: usize = 5;
/// Share of the programs' activity from which the processes of a command are all that matter: no others are mentioned.
const WHOLE_SHARE: f64 = 0.8;

/// Processes that a command acts on.
pub(super) struct ActingProcesses<'a> {
    /// The program of the most active process.
    pub leading: &'a Culprit,
    /// The most active first.
    processes: Vec<(&'a Culprit, &'a CulpritProcess)>,
    /// True if the programs have further processes with much of the activity.
    pub leaves_others: bool,
}

impl<'a> ActingProcesses<'a> {
    /// Finds the processes among the culprits of a bottleneck; `None` where no program does enough.
    pub fn find_acting(culprits: &'a [Culprit], bottleneck: Bottleneck) -> Option<ActingProcesses<'a>> {
        let programs = || culprits.iter().filter(|c| c.pid.is_some() && !is_kernel_thread(&c.name));
        let share = |program: &Culprit| program.share.unwrap_or(0.0);
        // without one that stands out, the first of several that do the bulk together
        let leading = programs().find(|program| share(program) >= MIN_ACTING_SHARE).or_else(|| programs().next())?;
        let mut processes: Vec<(&Culprit, &CulpritProcess)> = programs()
            .filter(|program| is_of_same_kind(program, leading, bottleneck))
            .flat_map(|program| program.members.iter().map(move |process| (program, process)))
            .collect();
        if processes.iter().any(|(_, process)| process.is_in_last_table) {
            processes.retain(|(_, process)| process.is_in_last_table);
        }
        let is_of_leading = |program: &Culprit| std::ptr::eq(program, leading);
        // programs that only wait come behind those that act, however large their shares are
        processes.sort_by_key(|(program, _)| !is_of_leading(program));
        let most = processes.first()?.1.share;
        processes.retain(|(_, process)| process.share >= MIN_EQUAL_SHARE * most);
        processes.sort_by(|(_, a), (_, b)| b.share.total_cmp(&a.share).then(a.pid.cmp(&b.pid)));
        processes.truncate(MAX_ACTING);
        let reached: f64 = processes.iter().map(|(_, process)| process.share).sum();
        if share(leading) < MIN_ACTING_SHARE && reached < MIN_SHARE_TOGETHER {
            return None;
        }
        let is_reached = |program: &Culprit| processes.iter().any(|(known, _)| std::ptr::eq(*known, program));
        let whole: f64 = programs().filter(|program| is_reached(program)).map(share).sum();
        let leaves_others = leading.processes > 1 && reached < WHOLE_SHARE * whole;
        Some(ActingProcesses { leading, processes, leaves_others })
    }

    /// The programs in words: `tar`, `burn (3 processes)`, `sort, gzip and convert`.
    pub fn name_text(&self) -> String {
        let mut programs: Vec<&Culprit> = Vec::new();
        for (program, _) in &self.processes {
            if !programs.iter().any(|known| std::ptr::eq(*known, *program)) {
                programs.push(program);
            }
        }
        let names: Vec<String> = programs.into_iter().map(|program| self.program_text(program)).collect();
        match names.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            _ => names.concat(),
        }
    }

    fn program_text(&self, program: &Culprit) -> String {
        let reached = self.processes.iter().filter(|(known, _)| std::ptr::eq(*known, program)).count();
        match (reached, program.processes as usize) {
            (_, 0 | 1) => program.name.clone(),
            (1, all) => format!("{} (the most active of {all})", program.name),
            (some, all) if some < all => format!("{} (the {some} most active of {all})", program.name),
            (_, all) => format!("{} ({all} processes)", program.name),
        }
    }

    /// Facts that name the processes; none if these may have ended.
    pub fn process_facts(&self) -> Vec<(&'static str, String)> {
        if !self.processes.iter().all(|(_, process)| process.is_in_last_table) {
            return Vec::new();
        }
        let mut pids: Vec<u32> = self.processes.iter().map(|(_, process)| process.pid).collect();
        pids.sort_unstable();
        // a program that became another one is listed by both names
        pids.dedup();
        let join = |text: fn(&u32) -> String| pids.iter().map(text).collect::<Vec<_>>().join(" ");
        // `ls` of several folders would print their names too
        let tasks = join(|pid| format!("$(ls /proc/{pid}/task)"));
        let count = if pids.len() == 1 { "alone" } else { "together" };
        vec![("pids", join(u32::to_string)), ("tasks", tasks), (count, String::new())]
    }
}

/// True for programs that can share the same commands, and the same commands to undo them. Against a disk, a program
/// that can wait is paused, so it cannot share a command with one that cannot wait.
fn is_of_same_kind(program: &Culprit, leading: &Culprit, bottleneck: Bottleneck) -> bool {
    let can_wait = |c: &Culprit| bottleneck != Bottleneck::Cpu && is_batch_program(&c.name);
    let kind = |c: &Culprit| (c.nice, c.realtime_priority.is_some(), is_server_program(&c.name), can_wait(c));
    kind(program) == kind(leading)
}
