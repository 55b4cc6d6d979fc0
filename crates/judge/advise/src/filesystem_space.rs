//! Space and inodes of local filesystems, queried in a thread with a deadline. Network filesystems and those of user
//! processes are never queried: they may not respond.
//!
//! The results are a text in the tree, so that they are stored with the other facts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use diskwright_counters::live::{Roots, mountinfo, sources::mounts};

use crate::host_tree::{HostTree, first_number};

/// Lines of mount point (as the kernel escapes it), bytes of a block, blocks, blocks for users, inodes and free inodes.
pub(crate) const SPACE_FILE: &str = "space";
/// Time limit for all filesystems together.
const DEADLINE: Duration = Duration::from_millis(200);

/// One filesystem's space.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FilesystemSpace {
    pub mount: String,
    pub block_bytes: f64,
    pub blocks: f64,
    pub free_blocks: f64,
    pub total_inodes: f64,
    pub free_inodes: f64,
}

/// Adds the space of the filesystems; for a copied folder, the text in it.
pub(crate) fn add_space(tree: &mut HostTree, root: &Path) {
    if root != Path::new("/") {
        if let Ok(text) = std::fs::read_to_string(root.join(SPACE_FILE)) {
            tree.files.insert(SPACE_FILE.into(), text);
        }
        return;
    }
    let Some(text) = tree.get("proc/self/mountinfo") else { return };
    let mounts = mountinfo::parse_mounts(text.as_bytes());
    let points: Vec<String> = mounts::local_mounts(&mounts).iter().map(|mount| mount.point.clone()).collect();
    let (lines, late) = query_with_deadline(&points, DEADLINE, space_line);
    tree.files.insert(SPACE_FILE.into(), lines.join("\n"));
    if let Some(point) = late {
        let because = format!("the filesystem at {point} did not respond within {} ms", DEADLINE.as_millis());
        tree.lacking.insert(SPACE_FILE.into(), because);
    }
}

/// Stack of the thread, which only asks the kernel.
const STACK_BYTES: usize = 256 << 10;

/// Collects results of a thread that may never end, and returns the point at which it was when the time was over.
fn query_with_deadline(
    points: &[String],
    deadline: Duration,
    line: impl Fn(&str) -> Option<String> + Send + 'static,
) -> (Vec<String>, Option<String>) {
    let (sender, receiver) = mpsc::channel();
    let points_to_query = points.to_vec();
    let query = move || points_to_query.iter().try_for_each(|point| sender.send(line(point)).ok());
    // without a thread the channel is closed, as if none had responded
    let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(query);
    let end = Instant::now() + deadline;
    let mut lines = Vec::new();
    for point in points {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => lines.extend(line),
            Err(_) => return (lines, Some(point.clone())),
        }
    }
    (lines, None)
}

fn space_line(point: &str) -> Option<String> {
    let space = rustix::fs::statvfs(Roots::default().resolve_path(point)).ok()?;
    let point = point.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012");
    Some(format!(
        "{point} {} {} {} {} {}",
        space.f_frsize, space.f_blocks, space.f_bavail, space.f_files, space.f_favail
    ))
}

/// Parses the text.
pub(crate) fn parse_space(text: &str) -> Vec<FilesystemSpace> {
    let read = |line: &str| {
        let mut words = line.split_whitespace();
        let mount = mountinfo::unescape_path(words.next()?.as_bytes());
        let numbers: Vec<f64> = words.map(first_number).collect::<Option<_>>()?;
        let &[block_bytes, blocks, free, inodes, inodes_free] = numbers.as_slice() else { return None };
        Some(FilesystemSpace {
            mount,
            block_bytes,
            blocks,
            free_blocks: free,
            total_inodes: inodes,
            free_inodes: inodes_free,
        })
    };
    text.lines().filter_map(read).collect()
}

/// Replaces values by a log's last counters: bytes for users, all bytes, free inodes, all inodes.
pub(crate) fn with_newer_counters(
    facts: Vec<FilesystemSpace>,
    last: &BTreeMap<String, [f64; 4]>,
) -> Vec<FilesystemSpace> {
    let mut found = facts;
    for (mount, [free, blocks, inodes_free, inodes]) in last {
        // sums over all, and volumes of other systems, are not mount points
        if !mount.starts_with('/') || !(free + blocks).is_finite() || *blocks <= 0.0 {
            continue;
        }
        let known = |value: f64| if value.is_finite() { value } else { 0.0 };
        let (inodes, inodes_free) = (known(*inodes), known(*inodes_free));
        let newer = FilesystemSpace {
            mount: mount.clone(),
            block_bytes: 1.0,
            blocks: *blocks,
            free_blocks: *free,
            total_inodes: inodes,
            free_inodes: inodes_free,
        };
        match found.iter_mut().find(|space| space.mount == *mount) {
            Some(space) => *space = newer,
            None => found.push(newer),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hung_filesystem_costs_only_its_own_answer() {
        let points = ["/".to_owned(), "/dead".to_owned(), "/srv".to_owned()];
        let begun = Instant::now();
        let (lines, late) = query_with_deadline(&points, Duration::from_millis(50), |point| {
            if point == "/dead" {
                thread::park();
            }
            Some(format!("{point} 1 2 3 4 5"))
        });
        assert_eq!((lines, late.as_deref()), (vec!["/ 1 2 3 4 5".to_owned()], Some("/dead")));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn parses_what_it_writes() {
        let found = parse_space("/srv/a\\040b 4096 1000 50 0 0\nbroken 1\n");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].mount.as_str(), found[0].free_blocks, found[0].total_inodes), ("/srv/a b", 50.0, 0.0));
        let here = parse_space(&space_line("/").expect("the root filesystem answers"));
        assert!(here[0].blocks > 0.0);
    }
}
