//! Who a process is, from the rows of its tables: user, command line, and where it runs.

use diskwright_base::process_place::place_of_cgroup;
use diskwright_base::{ProcessPlace, ProcessRow};

use crate::culprits::culprit::Culprit;

/// What the last rows that knew it told.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessIdentity {
    user: Option<String>,
    command_line: Option<String>,
    place: Option<Box<ProcessPlace>>,
}

impl ProcessIdentity {
    pub fn add_row(&mut self, row: &ProcessRow) {
        if row.user.is_some() {
            self.user.clone_from(&row.user);
        }
        if row.command_line.is_some() {
            self.command_line.clone_from(&row.command_line);
        }
        if row.place.is_some() {
            self.place.clone_from(&row.place);
        }
    }

    /// Tells the culprit who it is. Where a table does not tell where a process runs, the path of its cgroup does.
    pub fn describe(&self, culprit: &mut Culprit) {
        culprit.user.clone_from(&self.user);
        culprit.command_line.clone_from(&self.command_line);
        self.locate(culprit);
    }

    /// Tells the culprit, which may be the cgroup, where it runs.
    pub fn locate(&self, culprit: &mut Culprit) {
        let place = self.place.as_deref().cloned().unwrap_or_else(|| place_of_cgroup(&culprit.cgroup).place);
        culprit.unit = place.unit;
        culprit.container = place.container;
        culprit.pod = place.pod;
        culprit.machine = place.machine;
    }
}
