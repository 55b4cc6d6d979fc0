//! Who a process is, from the rows of its tables: user, command line, and where it runs.

use diskwright_base::command_line::script_of_command;
use diskwright_base::process_place::place_of_cgroup;
use diskwright_base::{ProcessPlace, ProcessRow};

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

    /// User and command line.
    pub fn user_and_command(&self) -> (Option<String>, Option<String>) {
        (self.user.clone(), self.command_line.clone())
    }

    /// The script that an interpreter runs.
    pub fn script(&self) -> Option<&str> {
        script_of_command(self.command_line.as_deref()?)
    }

    /// Where it runs. Where a table does not tell, the path of its cgroup does.
    pub fn place_in(&self, cgroup: &str) -> ProcessPlace {
        self.place.as_deref().cloned().unwrap_or_else(|| place_of_cgroup(cgroup).place)
    }
}
