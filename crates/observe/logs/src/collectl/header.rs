//! The lines between `####` that both kinds of file begin with.

use diskwright_base::Topology;

use crate::sysstat::clock::ZoneHint;
use crate::sysstat::time;

/// Values of the head.
#[derive(Clone, Debug, Default)]
pub struct CollectlHeader {
    /// The machine.
    pub machine: Topology,
    /// Offset east of UTC, seconds.
    pub zone_offset_s: Option<i64>,
    /// Ticks of the kernel's clock in a second.
    pub hertz: Option<f64>,
    /// Bytes of a page.
    pub page_bytes: Option<f64>,
}

impl CollectlHeader {
    /// Returns true for the first line of a head.
    pub fn is_first_line(line: &str) -> bool {
        line.starts_with("# Collectl:")
    }

    /// Parses a line; returns true for the first line of a head.
    pub fn parse_line(&mut self, line: &str) -> bool {
        if CollectlHeader::is_first_line(line) {
            *self = CollectlHeader::default();
            return true;
        }
        let after = |name: &str| line.split_once(name).and_then(|(_, rest)| rest.split_whitespace().next());
        if let Some(host) = line.strip_prefix("# Host:").and_then(|rest| rest.split_whitespace().next()) {
            self.machine.host = host.to_owned();
        } else if line.starts_with("# Date:") {
            self.zone_offset_s = after("TZ:").and_then(time::zone_offset_s);
        } else if line.starts_with("# HZ:") {
            self.hertz = after("HZ:").and_then(|hz| hz.parse().ok()).filter(|hz| (1.0..=1e5).contains(hz));
            self.page_bytes = after("PageSize:").and_then(|size| size.parse().ok());
            self.machine.page_bytes = self.page_bytes.unwrap_or(0.0) as u64;
        } else if line.starts_with("# SubSys:") {
            self.machine.processors = after("NumCPUs:").and_then(|n| n.parse().ok()).unwrap_or(0);
        } else if let Some(rest) = line.strip_prefix("# Kernel:") {
            self.machine.kernel = rest.split_whitespace().next().unwrap_or_default().to_owned();
            let kib: u64 = after("Memory:").and_then(|kib| kib.parse().ok()).unwrap_or(0);
            self.machine.memory_bytes = kib.saturating_mul(1024);
        }
        false
    }

    /// Zone of its times of day.
    pub fn zone_hint(&self) -> ZoneHint {
        self.zone_offset_s.map_or(ZoneHint::Missing, ZoneHint::Offset)
    }
}

/// Returns true for a line of a head.
pub fn is_head_line(line: &[u8]) -> bool {
    line.starts_with(b"####") || line.starts_with(b"# ")
}
