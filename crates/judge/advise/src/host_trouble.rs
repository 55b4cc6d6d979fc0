//! A bottleneck of the host, as a verdict names it.

/// One bottleneck of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTrouble {
    /// Its name as in verdicts: `disk`, `memory`.
    pub bottleneck: String,
    /// The device or cgroup; empty for the host.
    pub instance: String,
}

impl HostTrouble {
    /// The cgroup or device, without the disk that the instance of a cgroup may name too: `group@sda`.
    pub(crate) fn group(&self) -> &str {
        self.instance.split_once('@').map_or(&self.instance, |(group, _)| group)
    }

    /// Short name: `disk sda`.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.bottleneck, self.instance).trim_end().to_owned()
    }
}
