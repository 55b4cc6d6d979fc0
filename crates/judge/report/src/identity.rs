//! Who a process is, in a line: command line, where it runs, and its user.

use diskwright_base::ProcessPlace;
use diskwright_diagnosis::Culprit;

use crate::text::{cut_middle, display_width};

/// Smallest number of columns of a command line: with less, what follows it gives way.
const MIN_COMMAND_COLUMNS: usize = 24;
/// User of most servers, who is not worth a word.
const USUAL_USER: &str = "root";

/// Says where a process runs: `docker shop`, `pod shop/api-0 (api)`, `cron.service`; empty where nothing is known.
pub fn place_text(place: &ProcessPlace) -> String {
    let container = place.container.as_ref().map(|one| one.name.as_deref().unwrap_or(&one.id));
    if let Some(pod) = &place.pod {
        let namespace = pod.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
        let within = container.map_or(String::new(), |container| format!(" ({container})"));
        return format!("pod {namespace}{}{within}", pod.name.as_ref().unwrap_or(&pod.uid));
    }
    match (&place.container, &place.machine, &place.unit) {
        (Some(one), ..) => format!("{} {}", one.runtime, container.unwrap_or_default()),
        (None, Some(machine), _) => format!("machine {machine}"),
        (None, None, Some(unit)) => unit.clone(),
        (None, None, None) => String::new(),
    }
}

/// Says who a process is in at most `columns`: the command line, with its middle left out where it is too long, then
/// place and user. Empty where this adds nothing to its name.
pub fn identity_line(
    name: &str,
    command_line: Option<&str>,
    place: &ProcessPlace,
    user: Option<&str>,
    columns: usize,
) -> String {
    let command = command_line.filter(|line| *line != name).unwrap_or_default();
    let user = user.filter(|user| *user != USUAL_USER).map_or(String::new(), |user| format!("user {user}"));
    let parts: Vec<String> = [place_text(place), user].into_iter().filter(|part| !part.is_empty()).collect();
    let after = parts.join(", ");
    if command.is_empty() {
        return cut_middle(&after, columns);
    }
    if after.is_empty() {
        return fit_command(command, columns);
    }
    let after_columns = columns.saturating_sub(MIN_COMMAND_COLUMNS.min(display_width(command)) + 3);
    let after = format!(" ({})", cut_middle(&after, after_columns));
    format!("{}{after}", fit_command(command, columns.saturating_sub(display_width(&after))))
}

/// Makes a command line fit: without the folder of its program where it is too long, then without its middle.
fn fit_command(command: &str, columns: usize) -> String {
    if display_width(command) <= columns {
        return command.to_owned();
    }
    let program_bytes = command.find(' ').unwrap_or(command.len());
    let folder_bytes = command[..program_bytes].rfind('/').map_or(0, |slash| slash + 1);
    let mut words: Vec<String> = command[folder_bytes..].split(' ').map(str::to_owned).collect();
    // folders tell less than names: those of the longest paths are left out first
    while display_width(&words.join(" ")) > columns {
        let saved = |word: &str, short: &str| display_width(word) - display_width(short);
        let shortened = words.iter().enumerate().filter_map(|(index, word)| Some((index, without_folder(word)?)));
        let Some((index, short)) = shortened.max_by_key(|(index, short)| saved(&words[*index], short)) else { break };
        words[index] = short;
    }
    cut_middle(&words.join(" "), columns)
}

/// A word with the name of a file alone: `--log=…/x.log` of `--log=/var/lib/app/x.log`; `None` where nothing is saved.
fn without_folder(word: &str) -> Option<String> {
    const FOLDER_MARK: &str = "…/";
    let path_begin = word.find('/').map(|slash| word[..slash].rfind('=').map_or(0, |equals| equals + 1))?;
    let (before, path) = word.split_at(path_begin);
    let name = path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty())?;
    let short = format!("{before}{FOLDER_MARK}{name}");
    (display_width(&short) < display_width(word) && !word.contains("://")).then_some(short)
}

/// The line of a culprit; see [`identity_line`].
pub fn culprit_line(culprit: &Culprit, columns: usize) -> String {
    let (command_line, user) = (culprit.command_line.as_deref(), culprit.user.as_deref());
    identity_line(&culprit.name, command_line, &culprit.place, user, columns)
}

/// Names a culprit with who it is, for a sentence: `tar (tar cf /backup.tar /srv, cron.service)`.
pub fn culprit_summary(culprit: &Culprit, columns: usize) -> String {
    let line = culprit_line(culprit, columns);
    if line.is_empty() { culprit.name.clone() } else { format!("{}: {line}", culprit.name) }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{ProcessContainer, ProcessPod};

    use super::*;

    fn place(container: Option<&str>, pod: bool, machine: Option<&str>) -> ProcessPlace {
        ProcessPlace {
            unit: Some("cron.service".into()),
            container: container.map(|name| ProcessContainer {
                runtime: "docker".into(),
                name: Some(name.to_owned()).filter(|name| !name.is_empty()),
                id: "0123456789ab".into(),
            }),
            pod: pod.then(|| ProcessPod {
                namespace: Some("shop".into()),
                name: Some("api-0".into()),
                uid: "u".into(),
            }),
            machine: machine.map(str::to_owned),
        }
    }

    #[test]
    fn the_innermost_place_is_named() {
        assert_eq!(place_text(&place(None, false, None)), "cron.service");
        assert_eq!(place_text(&place(Some("web"), false, None)), "docker web");
        assert_eq!(place_text(&place(Some(""), false, None)), "docker 0123456789ab");
        assert_eq!(place_text(&place(Some("api"), true, None)), "pod shop/api-0 (api)");
        assert_eq!(place_text(&place(None, false, Some("db"))), "machine db");
        assert_eq!(place_text(&ProcessPlace::default()), "");
    }

    #[test]
    fn a_line_has_command_place_and_user_in_its_width() {
        let cron = place(None, false, None);
        let line = |command, user, columns| identity_line("tar", command, &cron, user, columns);
        let tar = Some("tar cf /backup.tar /srv");
        assert_eq!(line(tar, Some("backup"), 60), "tar cf /backup.tar /srv (cron.service, user backup)");
        assert_eq!(line(tar, Some("root"), 60), "tar cf /backup.tar /srv (cron.service)");
        assert_eq!(line(Some("tar"), None, 60), "cron.service", "the name stands before it");
        let long = format!("java -cp {} org.example.Main", "x".repeat(300));
        let cut = line(Some(&long), None, 60);
        assert!(cut.starts_with("java -cp x") && cut.ends_with("org.example.Main (cron.service)"), "{cut}");
        let command = Some("python3 /opt/site/jobs/nightly/reindex.py --log=/var/log/site/jobs/reindex.log all");
        assert_eq!(line(command, None, 64), "python3 …/reindex.py --log=…/reindex.log all (cron.service)");
        let deep = "/usr/lib/postgresql/15/bin/postgres -D /var/lib/postgresql/15/main";
        assert_eq!(line(Some(deep), None, 58), "postgres -D /var/lib/postgresql/15/main (cron.service)");
        for columns in 0..100 {
            assert!(display_width(&line(Some(&long), Some("somebody"), columns)) <= columns.max(6), "{columns}");
        }
    }
}
