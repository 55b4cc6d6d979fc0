//! Machines and runs of the sections of a text: prompts and lines of tools name machines, people name runs.

use std::collections::{BTreeMap, HashSet};

use diskwright_base::text::is_same_host;

use super::Section;
use super::cutter::Remark;
use super::run_labels::is_machine_label;

/// Most runs that are told apart.
const MAX_RUNS: usize = 50;
/// Names that any machine may have.
const COMMON_NAMES: [&str; 5] = ["localhost", "localhost.localdomain", "host", "hostname", "none"];

/// Names the machine of each section. What a tool prints counts more than a prompt, which may hold another name of the
/// machine; a section without either is of the machine above it.
pub(super) fn name_hosts(sections: &mut [Section]) {
    let is_common = |host: &str| COMMON_NAMES.contains(&host.to_ascii_lowercase().as_str());
    let mut names: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    for section in sections.iter().filter(|section| !section.host.is_empty() && !is_common(&section.host)) {
        if let Some(prompt) = &section.prompt_host {
            names.entry(prompt.clone()).or_default().insert(section.host.clone());
        }
    }
    for section in sections.iter_mut() {
        let Some(prompt) = &section.prompt_host else { continue };
        if section.host.is_empty() || is_common(&section.host) {
            let own = names.get(prompt).filter(|own| own.len() == 1).and_then(|own| own.iter().next());
            section.host = own.unwrap_or(prompt).clone();
        }
    }
    let mut last = sections.iter().map(|section| &section.host).find(|host| !host.is_empty()).cloned();
    for section in sections.iter_mut() {
        if section.host.is_empty() {
            section.host = last.clone().unwrap_or_default();
        } else if let Some(known) = last.as_ref().filter(|known| is_same_host(known, &section.host)) {
            section.host.clone_from(known);
        } else {
            last = Some(section.host.clone());
        }
    }
}

/// Numbers the runs that people named: output of one tool below two remarks is of two runs, and so is any output below
/// two names of runs.
pub(super) fn number_runs(sections: &mut [Section], remarks: &[Remark]) {
    let mut run = 0;
    let mut last_remark = 0;
    let mut label: Option<&str> = None;
    let mut programs: HashSet<(String, String)> = HashSet::new();
    for section in sections.iter_mut() {
        let key = (section.host.clone(), section.program.clone());
        let remark = remarks.get(section.remark.wrapping_sub(1)).filter(|_| section.remark != last_remark);
        last_remark = section.remark;
        if let Some(remark) = remark {
            let is_other_label = remark.is_label && label.is_some_and(|label| label != remark.text);
            if is_other_label || programs.contains(&key) {
                run += 1;
                programs.clear();
                label = None;
            }
            if remark.is_label {
                label = Some(&remark.text);
            }
        }
        programs.insert(key);
        section.run = run;
        section.run_name = label.unwrap_or_default().to_owned();
    }
    if run >= MAX_RUNS {
        sections.iter_mut().for_each(|section| section.run = 0);
    }
    name_machines_by_labels(sections);
}

/// Takes `server A:` and `server B:` above output without a machine's name for names of machines.
fn name_machines_by_labels(sections: &mut [Section]) {
    let is_named = |section: &Section| section.host.is_empty() && is_machine_label(&section.run_name);
    if sections.iter().all(is_named) {
        for section in sections.iter_mut() {
            section.host = std::mem::take(&mut section.run_name);
            section.run = 0;
        }
    }
}
