//! Space and inodes of local filesystems, queried in a thread with a deadline. Network filesystems and FUSE are never
//! queried: they may not respond.
//!
//! The results become a text in the tree, so that they are stored with the other facts.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use diskwright_counters::live::{Roots, mountinfo, sources::mounts};
use diskwright_hostfiles::deadline::collect_within;

use crate::host_tree::{HostTree, first_number};

/// File of the tree. Each line has a mount point (escaped as by the kernel), bytes of a block, blocks, blocks that
/// users may still fill, inodes and free inodes.
pub(crate) const SPACE_FILE: &str = "space";
/// Time limit for all filesystems together.
const DEADLINE: Duration = Duration::from_millis(200);

/// One filesystem's space.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FilesystemSpace {
    pub mount: String,
    pub block_bytes: f64,
    pub blocks: f64,
    /// Blocks that users may still fill.
    pub free_blocks: f64,
    pub total_inodes: f64,
    pub free_inodes: f64,
}

/// Adds the space of the filesystems to the tree; for a copied host, the text in the copy.
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
    let (lines, late_point) = query_with_deadline(&points, DEADLINE, space_line);
    tree.files.insert(SPACE_FILE.into(), lines.join("\n"));
    if let Some(point) = late_point {
        let because = format!("the filesystem at {point} did not respond within {} ms", DEADLINE.as_millis());
        tree.unreadable.insert(SPACE_FILE.into(), because);
    }
}

/// Queries the points. Returns the results so far, and the point that did not respond before the deadline.
fn query_with_deadline(
    points: &[String],
    deadline: Duration,
    query: impl Fn(&str) -> Option<String> + Send + 'static,
) -> (Vec<String>, Option<String>) {
    let points_to_query = points.to_vec();
    let (lines, _) = collect_within(deadline, move |sender| {
        let _ = points_to_query.iter().try_for_each(|point| sender.send(query(point)));
    });
    let late_point = points.get(lines.len()).cloned();
    (lines.into_iter().flatten().collect(), late_point)
}

/// Queries a filesystem, and returns its line of [`SPACE_FILE`].
fn space_line(point: &str) -> Option<String> {
    let space = rustix::fs::statvfs(Roots::default().resolve_path(point)).ok()?;
    let point = mountinfo::escape_path(point);
    Some(format!(
        "{point} {} {} {} {} {}",
        space.f_frsize, space.f_blocks, space.f_bavail, space.f_files, space.f_favail
    ))
}

/// Parses the text of [`SPACE_FILE`]; lines that are not understood are left out.
pub(crate) fn parse_space(text: &str) -> Vec<FilesystemSpace> {
    let parse_line = |line: &str| {
        let mut words = line.split_whitespace();
        let mount = mountinfo::unescape_path(words.next()?.as_bytes());
        let numbers: Vec<f64> = words.map(first_number).collect::<Option<_>>()?;
        let &[block_bytes, blocks, free_blocks, total_inodes, free_inodes] = numbers.as_slice() else { return None };
        Some(FilesystemSpace { mount, block_bytes, blocks, free_blocks, total_inodes, free_inodes })
    };
    text.lines().filter_map(parse_line).collect()
}

/// Replaces values by a log's last counters of each mount point: bytes that users may still fill, all bytes, free
/// inodes, all inodes.
pub(crate) fn with_newer_counters(
    facts: Vec<FilesystemSpace>,
    last: &BTreeMap<String, [f64; 4]>,
) -> Vec<FilesystemSpace> {
    let mut spaces = facts;
    for (mount, [free_bytes, bytes, free_inodes, inodes]) in last {
        // totals of all filesystems, and volumes of other systems, are not mount points
        if !mount.starts_with('/') || !(free_bytes + bytes).is_finite() || *bytes <= 0.0 {
            continue;
        }
        let or_zero = |value: f64| if value.is_finite() { value } else { 0.0 };
        let newer = FilesystemSpace {
            mount: mount.clone(),
            block_bytes: 1.0,
            blocks: *bytes,
            free_blocks: *free_bytes,
            total_inodes: or_zero(*inodes),
            free_inodes: or_zero(*free_inodes),
        };
        match spaces.iter_mut().find(|space| space.mount == *mount) {
            Some(space) => *space = newer,
            None => spaces.push(newer),
        }
    }
    spaces
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

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
