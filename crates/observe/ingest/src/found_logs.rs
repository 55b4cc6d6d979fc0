//! What a command line names, as logs: files as they are, bundles and texts as the logs in them.

use std::path::PathBuf;
use std::rc::Rc;

use diskwright_logs::prometheus;

use crate::IngestError;
use crate::bundle;
use crate::given_log::GivenLog;
use crate::pasted_text;
use crate::report::Reporter;
use crate::temporary::TemporaryFolder;

/// Finds the logs that paths stand for, recognized, but not read yet: files, `-` for standard input, folders and
/// archives of logs, and the parts of a pasted text. A file that cannot be read says so when it is.
pub fn find_logs(paths: &[PathBuf], reporter: &Reporter) -> Result<Vec<GivenLog>, IngestError> {
    let mut logs = Vec::new();
    for path in paths {
        match bundle::find_logs(path, reporter)? {
            None => logs.push(GivenLog::given_directly(path)),
            Some(found) => logs.extend(found),
        }
    }
    let may_be_pages = logs.len() > 1 && logs.iter().all(|log| log.pages.is_empty() && log.path.is_file());
    let files: Vec<(PathBuf, String)> = logs.iter().map(|log| (log.path.clone(), log.name.clone())).collect();
    if may_be_pages && prometheus::are_pages(&files) {
        // the first log reads the files of all others, so it keeps their folders
        let folders: Vec<Rc<TemporaryFolder>> = logs.drain(1..).flat_map(|log| log.unpacked).collect();
        logs[0].unpacked.extend(folders);
        logs[0].pages = files;
    }
    Ok(logs.into_iter().flat_map(|log| pasted_text::split_log(log, reporter)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_several_archives_keep_their_folders() {
        let folder = tempfile::tempdir().unwrap();
        let pack = |name: &str| {
            let page = b"# TYPE node_load1 gauge\nnode_load1 0.5\n";
            let mut header = tar::Header::new_gnu();
            header.set_size(page.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            let mut archive = tar::Builder::new(Vec::new());
            archive.append_data(&mut header, "metrics.prom", &page[..]).unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, archive.into_inner().unwrap()).unwrap();
            path
        };
        let logs = find_logs(&[pack("a.tar"), pack("b.tar")], &Reporter::silent()).unwrap();
        let files = logs[0].input_files();
        assert_eq!((logs.len(), files.len()), (1, 2));
        assert!(files.iter().all(|(path, _)| path.is_file()), "{files:?}");
    }
}
