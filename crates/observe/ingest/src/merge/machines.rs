//! Machines of several logs: only those of one are joined.

use std::collections::BTreeMap;

use diskwright_base::text::is_same_host;
use diskwright_base::{Frame, Note};
use diskwright_datastore::LogItem;

use super::member::MergeMember;
use crate::IngestError;
use crate::report::Reporter;
use crate::stored_log::StoredLog;

/// Refuses logs of different machines.
///
/// # Errors
/// When there are two, and when a log cannot be read.
pub fn check_same_host(members: &[MergeMember]) -> Result<(), IngestError> {
    let mut known: Option<(String, &str)> = None;
    for member in members {
        let Some(host) = find_host(&member.stored)? else { continue };
        match &known {
            Some((first, name)) if !is_same_host(first, &host) => {
                return Err(IngestError::OtherMachine {
                    name: (*name).to_owned(),
                    host: first.clone(),
                    other_name: member.name.clone(),
                    other_host: host,
                });
            }
            Some(_) => {}
            None => known = Some((host, &member.name)),
        }
    }
    Ok(())
}

/// Marks logs of machines other than the one that is read: the machine of a log that was given directly, else the one
/// with the longest logs. A warning names the other machines. Without a bundle, no log is marked.
pub fn mark_other_machines(members: &[MergeMember], reporter: &Reporter) -> Result<Vec<bool>, IngestError> {
    let mut is_other_machine = vec![false; members.len()];
    if !members.iter().any(|member| member.is_bundled) {
        return Ok(is_other_machine);
    }
    let hosts: Vec<Option<String>> =
        members.iter().map(|member| find_host(&member.stored)).collect::<Result<_, IngestError>>()?;
    let length = |member: &MergeMember| member.range_ns.1.abs_diff(member.range_ns.0);
    let recorded = |host: &str| -> u64 {
        let is_same = |name: &Option<String>| name.as_deref().is_some_and(|name| is_same_host(host, name));
        members.iter().zip(&hosts).filter(|(_, name)| is_same(name)).map(|(member, _)| length(member)).sum()
    };
    let host_given_directly =
        hosts.iter().zip(members).find_map(|(host, member)| host.as_deref().filter(|_| !member.is_bundled));
    let longest = || hosts.iter().flatten().max_by_key(|host| recorded(host)).map(String::as_str);
    let Some(chosen) = host_given_directly.or_else(longest) else { return Ok(is_other_machine) };
    let mut left_out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (index, host) in hosts.iter().enumerate().filter_map(|(index, host)| Some((index, host.as_deref()?))) {
        if members[index].is_bundled && !is_same_host(chosen, host) {
            is_other_machine[index] = true;
            left_out.entry(host).or_default().push(&members[index].name);
        }
    }
    for (host, names) in left_out {
        let logs = if names.len() == 1 { "its log".to_owned() } else { format!("{} logs", names.len()) };
        reporter.warn(format_args!(
            "the logs are of several machines: {chosen} is read, {host} is not ({logs}, such as {}); to read it, use \
             --host {host}",
            names[0]
        ));
    }
    Ok(is_other_machine)
}

/// The first host name in a log.
fn find_host(log: &StoredLog) -> Result<Option<String>, IngestError> {
    let mut reader = log.open_reader()?;
    let mut frame = Frame::default();
    let mut frames = 0;
    while let Some(item) = reader.next(&mut frame)? {
        match item {
            LogItem::Note(note) if note.kind == Note::TOPOLOGY => {
                let host = note.read_topology().map(|t| t.host.clone()).unwrap_or_default();
                if !host.is_empty() {
                    return Ok(Some(host));
                }
            }
            // a topology note precedes the ticks that it describes
            LogItem::Frame if frames > 1 => break,
            LogItem::Frame => frames += 1,
            _ => {}
        }
    }
    Ok(None)
}
