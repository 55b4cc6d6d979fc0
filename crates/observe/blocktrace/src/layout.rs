//! Offsets of fields in an event and in a page of events, as the running kernel
//! describes them: `events/block/*/format` and `events/header_page`. They differ between
//! kernels (operations had 8 letters and now have 10, priorities were added), so nothing
//! is assumed: a layout that cannot be used is refused with a reason.

use crate::event::BlockEventKind;

/// Reason why an event cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LayoutError {
    /// The text lacks a part of an event's description.
    #[error("{event}: its format has no {field}")]
    Missing {
        /// The event.
        event: String,
        /// Missing part.
        field: &'static str,
    },
    /// A field has an unknown size.
    #[error("{event}: its field {field} has the unknown size of {size} bytes")]
    Size {
        /// The event.
        event: String,
        /// The field.
        field: &'static str,
        /// Its size, bytes.
        size: usize,
    },
    /// A page's header is unknown.
    #[error("the kernel's event pages have an unknown header")]
    Page,
}

/// Position of a field in an event or a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPosition {
    /// Offset, bytes.
    pub offset: usize,
    /// Size, bytes.
    pub size: usize,
}

/// Parses the name and position of a line `field:TYPE NAME; offset:N; size:N; …`.
pub(crate) fn parse_field(line: &str) -> Option<(&str, FieldPosition)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?;
    let name = declared.rsplit([' ', '\t']).next()?;
    let name = name.split('[').next().unwrap_or(name);
    let (mut offset, mut size) = (None, None);
    for part in parts {
        let number = |prefix| part.strip_prefix(prefix).and_then(|n: &str| n.trim().parse::<usize>().ok());
        offset = offset.or_else(|| number("offset:"));
        size = size.or_else(|| number("size:"));
    }
    Some((name, FieldPosition { offset: offset?, size: size? }))
}

/// Offsets of a block event's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLayout {
    /// Kind of the event.
    pub kind: BlockEventKind,
    /// Its number in this boot's buffers.
    pub id: u16,
    /// Id of the running thread.
    pub pid: usize,
    /// Device, the kernel's own number (major in the upper 12 bits).
    pub device: usize,
    /// First sector.
    pub sector: usize,
    /// Number of sectors; a split has none.
    pub sectors: Option<usize>,
    /// Letters of the operation.
    pub letters: FieldPosition,
    /// Name of the running thread; completions have none.
    pub comm: Option<usize>,
    /// For completions, the error.
    pub error: Option<usize>,
    /// For remaps, the original device.
    pub other_device: Option<usize>,
    /// For remaps, the original sector; for splits, the first sector of the second part.
    pub other_sector: Option<usize>,
    /// Length up to the end of the last field that is used, bytes.
    pub bytes: usize,
}

impl EventLayout {
    /// Parses the file `format` of an event.
    ///
    /// # Errors
    /// When a required field is missing, or has an unknown size.
    pub fn parse(kind: BlockEventKind, text: &str) -> Result<EventLayout, LayoutError> {
        let fields: Vec<(&str, FieldPosition)> = text.lines().filter_map(parse_field).collect();
        let event = || kind.name().to_owned();
        let find = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, field)| *field);
        let find_sized = |name: &'static str, size: usize| match find(name) {
            Some(field) if field.size == size => Ok(Some(field.offset)),
            Some(field) => Err(LayoutError::Size { event: event(), field: name, size: field.size }),
            None => Ok(None),
        };
        let require = |name: &'static str, size| {
            find_sized(name, size)?.ok_or_else(|| LayoutError::Missing { event: event(), field: name })
        };
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let letters = find("rwbs").ok_or_else(|| LayoutError::Missing { event: event(), field: "rwbs" })?;
        if !(4..=16).contains(&letters.size) {
            return Err(LayoutError::Size { event: event(), field: "rwbs", size: letters.size });
        }
        let (is_remap, is_split) = (kind == BlockEventKind::Remap, kind == BlockEventKind::Split);
        let mut layout = EventLayout {
            kind,
            id: id.ok_or_else(|| LayoutError::Missing { event: event(), field: "ID" })?,
            pid: require("common_pid", 4)?,
            device: require("dev", 4)?,
            sector: require("sector", 8)?,
            sectors: if is_split { None } else { Some(require("nr_sector", 4)?) },
            letters,
            comm: find_sized("comm", 16)?,
            error: find_sized("error", 4)?,
            other_device: if is_remap { Some(require("old_dev", 4)?) } else { None },
            other_sector: match (is_remap, is_split) {
                (true, _) => Some(require("old_sector", 8)?),
                (_, true) => Some(require("new_sector", 8)?),
                _ => None,
            },
            bytes: 0,
        };
        let used = ["common_pid", "dev", "sector", "nr_sector", "rwbs", "comm", "error", "old_dev", "old_sector"];
        let ends = used.iter().chain(["new_sector"].iter()).filter_map(|name| find(name));
        layout.bytes = ends.map(|field| field.offset.saturating_add(field.size)).max().unwrap_or(0);
        // no event is longer than a page: the description must be wrong
        if layout.bytes > 4096 {
            return Err(LayoutError::Size { event: event(), field: "rwbs", size: layout.bytes });
        }
        Ok(layout)
    }
}

/// Offsets of a page's time, length and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// The word with the used length of the page, and the flags of missed events.
    pub commit: FieldPosition,
    /// Offset of the events.
    pub data: usize,
    /// Size of a whole page, bytes.
    pub bytes: usize,
}

impl PageLayout {
    /// Parses `events/header_page`.
    ///
    /// # Errors
    /// When the time is not first, or the length is not a word of 4 or 8 bytes.
    pub fn parse(text: &str) -> Result<PageLayout, LayoutError> {
        let find = |name: &str| text.lines().filter_map(parse_field).find(|(n, _)| *n == name).map(|(_, field)| field);
        let (Some(time), Some(commit), Some(data)) = (find("timestamp"), find("commit"), find("data")) else {
            return Err(LayoutError::Page);
        };
        let is_known = time == FieldPosition { offset: 0, size: 8 }
            && commit.offset == 8
            && matches!(commit.size, 4 | 8)
            && data.offset == commit.offset + commit.size
            && data.size <= 1 << 20;
        if !is_known {
            return Err(LayoutError::Page);
        }
        Ok(PageLayout { commit, data: data.offset, bytes: data.offset + data.size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line as kernels have written it since 2.6.
    const ISSUE: &str = "name: block_rq_issue\nID: 2104\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[8];\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char comm[16];\toffset:40;\tsize:16;\tsigned:1;\n";

    #[test]
    fn an_events_fields_are_found_by_name() {
        let layout = EventLayout::parse(BlockEventKind::Issue, ISSUE).expect("known");
        assert_eq!((layout.id, layout.device, layout.sector, layout.sectors), (2104, 8, 16, Some(24)));
        assert_eq!((layout.letters, layout.comm), (FieldPosition { offset: 32, size: 8 }, Some(40)));
        assert_eq!((layout.error, layout.bytes), (None, 56));
    }

    #[test]
    fn an_unknown_layout_is_refused_by_name() {
        let without = ISSUE.replace(" sector;", " place;");
        let error = EventLayout::parse(BlockEventKind::Issue, &without).expect_err("no sector");
        assert_eq!(error.to_string(), "block_rq_issue: its format has no sector");
        let short = ISSUE.replace("offset:8;\tsize:4", "offset:8;\tsize:2");
        let error = EventLayout::parse(BlockEventKind::Issue, &short).expect_err("a short device");
        assert_eq!(error.to_string(), "block_rq_issue: its field dev has the unknown size of 2 bytes");
        let far = ISSUE.replace("offset:40", "offset:18446744073709551615");
        assert!(EventLayout::parse(BlockEventKind::Issue, &far).is_err());
        assert!(EventLayout::parse(BlockEventKind::Issue, "").is_err());
    }

    #[test]
    fn a_pages_header_is_read_or_refused() {
        let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let layout = PageLayout::parse(page).expect("known");
        assert_eq!((layout.data, layout.bytes, layout.commit.size), (16, 4096, 8));
        // 32-bit kernels
        let short = page.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4");
        let short = short.replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
        assert_eq!(PageLayout::parse(&short).map(|l| l.data), Ok(12));
        assert_eq!(PageLayout::parse(&page.replace("offset:16", "offset:24")), Err(LayoutError::Page));
        assert_eq!(PageLayout::parse(""), Err(LayoutError::Page));
    }
}
