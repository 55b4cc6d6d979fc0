//! The role of a server, inferred from its running programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host_tree::HostTree;

/// File of the tree. Each line has a program's name and its number of processes, for programs that indicate a role.
pub(crate) const PROCESSES_FILE: &str = "processes";

/// The role of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerRole {
    /// Virtual machines run on it.
    VirtualMachineHost,
    /// A database server.
    Database,
    /// Serves NFS or SMB.
    FileServer,
    /// A web or proxy server.
    Web,
    /// Somebody works at its screen.
    Desktop,
    /// No running program indicates a role.
    #[default]
    Unknown,
}

/// Programs that indicate a role, by their kernel name (15 bytes); a star at the end stands for any text. Without a
/// star the whole name must match: the kernel's own thread `kvm-irqfd-clean` exists on every host whose processor
/// supports it.
const ROLE_PROGRAMS: &[(ServerRole, &[&str])] = &[
    (
        ServerRole::VirtualMachineHost,
        &["qemu-system-*", "qemu-kvm", "kvm", "cloud-hyperviso", "firecracker", "VBoxHeadless"],
    ),
    (
        ServerRole::Database,
        &[
            "postgres*",
            "postmaster",
            "mysqld*",
            "mariadbd*",
            "mongod",
            "ora_pmon*",
            "db2sysc",
            "sqlservr",
            "clickhouse-serv",
            "cassandra",
        ],
    ),
    (ServerRole::FileServer, &["nfsd", "smbd*", "ksmbd*", "ganesha.nfsd"]),
    (ServerRole::Web, &["nginx*", "apache2*", "httpd*", "haproxy", "caddy", "lighttpd"]),
    (ServerRole::Desktop, &["gnome-shell*", "plasmashell", "kwin_*", "Xorg", "sway", "cinnamon*", "xfce4-session"]),
];

impl ServerRole {
    /// All roles, for the command line.
    pub const ALL: [ServerRole; 6] = [
        ServerRole::VirtualMachineHost,
        ServerRole::Database,
        ServerRole::FileServer,
        ServerRole::Web,
        ServerRole::Desktop,
        ServerRole::Unknown,
    ];

    /// The role's name in data and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ServerRole::VirtualMachineHost => "virtual-machine-host",
            ServerRole::Database => "database",
            ServerRole::FileServer => "file-server",
            ServerRole::Web => "web",
            ServerRole::Desktop => "desktop",
            ServerRole::Unknown => "unknown",
        }
    }

    /// Parses the name of a role.
    #[must_use]
    pub fn parse(text: &str) -> Option<ServerRole> {
        ServerRole::ALL.into_iter().find(|role| role.name() == text)
    }

    /// Infers the role from a host's programs; returns the program that indicates it, too. If programs of several roles
    /// run, the first role of the table wins: its needs come before those of the others.
    #[must_use]
    pub fn infer_from(tree: &HostTree) -> (ServerRole, Option<String>) {
        let names: Vec<&str> =
            tree.get(PROCESSES_FILE).unwrap_or_default().lines().filter_map(|l| l.split(' ').next()).collect();
        for (role, programs) in ROLE_PROGRAMS {
            if let Some(name) = names.iter().find(|name| programs.iter().any(|program| matches_program(name, program)))
            {
                return (*role, Some((*name).to_owned()));
            }
        }
        (ServerRole::Unknown, None)
    }
}

fn matches_program(name: &str, program: &str) -> bool {
    program.strip_suffix('*').map_or(name == program, |prefix| name.starts_with(prefix))
}

/// Adds the running programs that indicate a role to the tree.
pub(crate) fn add_programs(tree: &mut HostTree, root: &Path) {
    let Ok(entries) = fs::read_dir(root.join("proc")) else { return };
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit())) {
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
        let name = name.trim_end().replace(' ', "_");
        if ROLE_PROGRAMS.iter().any(|(_, programs)| programs.iter().any(|program| matches_program(&name, program))) {
            *counts.entry(name).or_default() += 1;
        }
    }
    let lines: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    tree.files.insert(PROCESSES_FILE.into(), lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infers_the_role_from_programs_hypervisors_first() {
        let role = |text: &str| {
            let mut tree = HostTree::default();
            tree.files.insert(PROCESSES_FILE.into(), text.into());
            ServerRole::infer_from(&tree)
        };
        assert_eq!(role("postgres 12"), (ServerRole::Database, Some("postgres".into())));
        assert_eq!(role("nginx 4\nqemu-system-x86 9").0, ServerRole::VirtualMachineHost);
        // threads of kernel modules are not programs
        assert_eq!(role("kvm-irqfd-clean 1\nnfsd4_callbacks 1\nnginx 4").0, ServerRole::Web);
        assert_eq!(role(""), (ServerRole::Unknown, None));
        assert!(ServerRole::ALL.iter().all(|role| ServerRole::parse(role.name()) == Some(*role)));
    }
}
