//! First line of all text that sysstat prints: kernel, host, date, architecture and processors.

use super::machine::SysstatMachine;

/// Contents of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadLine {
    /// Kernel release.
    pub kernel: String,
    /// Host name.
    pub host: String,
    /// Date as printed.
    pub date: String,
    /// Processors; 0 is unknown.
    pub processors: u32,
}

impl HeadLine {
    /// Parses `Linux 6.1.0 (db1) \t11/21/26 \t_x86_64_\t(4 CPU)`; older releases end behind the date. `None` for other
    /// lines.
    pub fn parse(line: &str) -> Option<HeadLine> {
        let rest = line.trim_start().strip_prefix("Linux ")?;
        let (kernel, rest) = rest.split_once(" (")?;
        let (host, rest) = rest.split_once(')')?;
        let date = match rest.trim_start().split_once(['\t', '_']) {
            Some((date, _)) => date,
            None => rest,
        };
        let processors = rest.rsplit_once('(').and_then(|(_, cpus)| cpus.split_whitespace().next()?.parse().ok());
        Some(HeadLine {
            kernel: kernel.trim().to_owned(),
            host: host.trim().to_owned(),
            date: date.trim().to_owned(),
            processors: processors.unwrap_or(0),
        })
    }

    /// Converts it for the topology.
    pub fn to_machine(&self) -> SysstatMachine<'_> {
        let HeadLine { kernel, host, date, processors } = self;
        SysstatMachine { host, kernel, processors: *processors, memory_bytes: None, date }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lines_of_all_releases() {
        let parse = |line: &str| {
            let head = HeadLine::parse(line).unwrap();
            (head.kernel, head.host, head.date, head.processors)
        };
        let all = |date: &str, processors| ("6.1.0-9".into(), "db 1".into(), date.to_owned(), processors);
        assert_eq!(parse("Linux 6.1.0-9 (db 1) \t11/21/26 \t_x86_64_\t(4 CPU)"), all("11/21/26", 4));
        assert_eq!(parse("Linux 6.1.0-9 (db 1)    21.11.2026   _x86_64_  (16 CPU)"), all("21.11.2026", 16));
        assert_eq!(parse("Linux 6.1.0-9 (db 1) \t2026-11-21"), all("2026-11-21", 0));
        assert_eq!(parse("Linux 6.1.0-9 (db 1) \tSat 21 Nov 2026 \t_x86_64_\t(4 CPU)"), all("Sat 21 Nov 2026", 4));
        assert_eq!(HeadLine::parse("Linux"), None);
        assert_eq!(HeadLine::parse("13:20:09 LINUX RESTART (4 CPU)"), None);
    }
}
