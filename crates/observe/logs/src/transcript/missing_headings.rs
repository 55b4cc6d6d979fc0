//! Rows whose headings were not copied: those of iostat -x and sar -d by the number of their columns and by what must
//! hold between them, shares of processors by their sum.

use crate::sysstat::heading_table::parse_cell;
use crate::sysstat::time::parse_time_of_day;

/// Headings of the shares of all processors, of iostat.
const PROCESSORS: &str = "avg-cpu:  %user %nice %system %iowait %steal %idle";
/// Headings of the shares of processors below a time, of mpstat and sar.
const TIMED_PROCESSORS: [&str; 3] = [
    "CPU %user %nice %system %iowait %steal %idle",
    "CPU %usr %nice %sys %iowait %irq %soft %steal %guest %idle",
    "CPU %usr %nice %sys %iowait %irq %soft %steal %guest %gnice %idle",
];

/// Columns of a table of disks. Of what moved and the number of requests follows the mean size of one.
struct DiskShape {
    headings: &'static str,
    /// Columns of the requests of one kind, of the bytes that they moved, and of their mean size.
    sizes: &'static [SizeColumns],
    /// Bytes moved per unit of size.
    ratio: f64,
}

struct SizeColumns {
    requests: &'static [usize],
    bytes: &'static [usize],
    size: usize,
}

const OLD: &[SizeColumns] = &[SizeColumns { requests: &[2, 3], bytes: &[4, 5], size: 6 }];
const READS_AND_WRITES: &[SizeColumns] =
    &[SizeColumns { requests: &[0], bytes: &[2], size: 11 }, SizeColumns { requests: &[1], bytes: &[3], size: 12 }];
const NEW: &[SizeColumns] =
    &[SizeColumns { requests: &[0], bytes: &[1], size: 5 }, SizeColumns { requests: &[6], bytes: &[7], size: 11 }];
const SOLARIS_QUEUE: &[SizeColumns] = &[SizeColumns { requests: &[0, 1], bytes: &[4, 5], size: 6 }];
const SOLARIS_QUEUE_LAST: &[SizeColumns] = &[SizeColumns { requests: &[0, 1], bytes: &[5], size: 7 }];

/// Shapes of iostat -x of each release; sectors of 512 bytes, kilobytes, megabytes. Solaris' times follow from requests
/// and queue as sizes do from requests and bytes.
const DISK_SHAPES: &[DiskShape] = &[
    DiskShape {
        headings: "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util",
        sizes: OLD,
        ratio: 1.0,
    },
    DiskShape {
        headings: "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await svctm %util",
        sizes: OLD,
        ratio: 0.5,
    },
    DiskShape {
        headings: "Device: rrqm/s wrqm/s r/s w/s rMB/s wMB/s avgrq-sz avgqu-sz await svctm %util",
        sizes: OLD,
        ratio: 1.0 / 2048.0,
    },
    DiskShape {
        headings: "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await r_await w_await svctm %util",
        sizes: OLD,
        ratio: 1.0,
    },
    DiskShape {
        headings: "Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util",
        sizes: OLD,
        ratio: 0.5,
    },
    DiskShape {
        headings: "Device: rrqm/s wrqm/s r/s w/s rMB/s wMB/s avgrq-sz avgqu-sz await r_await w_await svctm %util",
        sizes: OLD,
        ratio: 1.0 / 2048.0,
    },
    DiskShape {
        headings: "Device r/s w/s rkB/s wkB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm \
                   %util",
        sizes: READS_AND_WRITES,
        ratio: 1.0,
    },
    DiskShape {
        headings: "Device r/s w/s rMB/s wMB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm \
                   %util",
        sizes: READS_AND_WRITES,
        ratio: 1.0 / 1024.0,
    },
    DiskShape {
        headings: "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz d/s dkB/s \
                   drqm/s %drqm d_await dareq-sz aqu-sz %util",
        sizes: NEW,
        ratio: 1.0,
    },
    DiskShape {
        headings: "Device r/s rMB/s rrqm/s %rrqm r_await rareq-sz w/s wMB/s wrqm/s %wrqm w_await wareq-sz d/s dMB/s \
                   drqm/s %drqm d_await dareq-sz aqu-sz %util",
        sizes: NEW,
        ratio: 1.0 / 1024.0,
    },
    DiskShape {
        headings: "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz d/s dkB/s \
                   drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util",
        sizes: NEW,
        ratio: 1.0,
    },
    DiskShape {
        headings: "Device r/s rMB/s rrqm/s %rrqm r_await rareq-sz w/s wMB/s wrqm/s %wrqm w_await wareq-sz d/s dMB/s \
                   drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util",
        sizes: NEW,
        ratio: 1.0 / 1024.0,
    },
    DiskShape { headings: "device r/s w/s kr/s kw/s wait actv svc_t %w %b", sizes: SOLARIS_QUEUE, ratio: 0.001 },
    DiskShape {
        headings: "r/s w/s kr/s kw/s wait actv wsvc_t asvc_t %w %b device",
        sizes: SOLARIS_QUEUE_LAST,
        ratio: 0.001,
    },
];

/// Shapes of sar -d, without the time.
const TIMED_DISK_SHAPES: &[DiskShape] = &[
    DiskShape {
        headings: "DEV tps rd_sec/s wr_sec/s avgrq-sz avgqu-sz await svctm %util",
        sizes: &[SizeColumns { requests: &[0], bytes: &[1, 2], size: 3 }],
        ratio: 1.0,
    },
    DiskShape {
        headings: "DEV tps rkB/s wkB/s dkB/s areq-sz aqu-sz await %util",
        sizes: &[SizeColumns { requests: &[0], bytes: &[1, 2, 3], size: 4 }],
        ratio: 1.0,
    },
    DiskShape {
        headings: "DEV tps rkB/s wkB/s dkB/s areq-sz aqu-sz await svctm %util",
        sizes: &[SizeColumns { requests: &[0], bytes: &[1, 2, 3], size: 4 }],
        ratio: 1.0,
    },
];

/// Largest relative difference of a mean size from what moved; cells are rounded.
const MAX_DIFFERENCE: f64 = 0.1;
/// Least that must have moved for a size to tell anything, in the unit of its column.
const MIN_MOVED: f64 = 0.5;
/// Fewest and most words of a row.
const MIN_WORDS: usize = 6;
const MAX_WORDS: usize = 26;
/// Fewest requests a second of which the mean size tells anything.
const MIN_REQUESTS_PER_S: f64 = 2.0;

/// A row that may stand without headings.
#[derive(Debug)]
struct BareRow {
    /// Set if a time stands before it.
    is_timed: bool,
    /// Its name, which may be the number of a processor; empty if there is none.
    name: String,
    /// Set if its name stands last.
    is_name_last: bool,
    numbers: Vec<f64>,
}

/// Puts headings above rows of disks and processors that have none. Returns whether any were missing.
pub(super) fn add_missing_headings(lines: &mut Vec<(usize, String)>) -> bool {
    let rows: Vec<Option<BareRow>> = lines.iter().map(|(_, line)| parse_row(line)).collect();
    let has_headings =
        |names: &[&str]| lines.iter().any(|(_, line)| line.split_whitespace().any(|word| names.contains(&word)));
    let find = |shapes: &'static [DiskShape], is_timed: bool, names: &[&str]| {
        let rows: Vec<&BareRow> = rows.iter().flatten().filter(|row| row.is_timed == is_timed).collect();
        if rows.is_empty() || has_headings(names) { None } else { find_shape(shapes, &rows) }
    };
    let disks = find(DISK_SHAPES, false, &["Device", "Device:", "device", "r/s"]);
    let timed_disks = find(TIMED_DISK_SHAPES, true, &["DEV"]);
    let has_processors = has_headings(&["CPU", "avg-cpu:", "%idle"]);
    if disks.is_none() && timed_disks.is_none() && (has_processors || !rows.iter().flatten().any(is_processor_total)) {
        return false;
    }
    let mut is_changed = false;
    let mut current = String::new();
    let mut completed: Vec<(usize, String)> = Vec::with_capacity(lines.len());
    for ((number, line), row) in lines.drain(..).zip(&rows) {
        let shape_heading = |row: &BareRow, shape: Option<&DiskShape>| {
            shape.filter(|shape| shape.fits_row(row)).map(|shape| shape.to_text(row.is_timed))
        };
        let processor_heading = |row: &BareRow| {
            let is_wanted = !has_processors && (row.is_timed || disks.is_some());
            if is_wanted { find_processor_headings(row) } else { None }
        };
        let heading = row.as_ref().and_then(|row| {
            let disks = if row.is_timed { timed_disks } else { disks };
            shape_heading(row, disks).or_else(|| processor_heading(row))
        });
        if let Some(heading) = heading
            && heading != current
        {
            completed.push((number, heading.clone()));
            (current, is_changed) = (heading, true);
        }
        completed.push((number, line));
    }
    *lines = completed;
    is_changed
}

fn parse_row(line: &str) -> Option<BareRow> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.len() < MIN_WORDS || words.len() > MAX_WORDS {
        return None;
    }
    let taken = parse_time_of_day(&words).map_or(0, |(_, taken)| taken);
    let (is_timed, words) = (taken > 0, words.get(taken..)?);
    let is_number = |word: &&str| parse_cell(word, 1.0).is_some();
    let is_named_first =
        is_timed || words.first().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let is_name_last = !is_named_first && words.last().is_some_and(|word| !is_number(word));
    let (name, cells) = match (is_named_first, is_name_last) {
        (true, _) => words.split_first().map(|(name, cells)| (*name, cells))?,
        (_, true) => words.split_last().map(|(name, cells)| (*name, cells))?,
        _ => ("", words),
    };
    let numbers: Option<Vec<f64>> = cells.iter().map(|word| parse_cell(word, 1.0).filter(|v| *v >= 0.0)).collect();
    Some(BareRow { is_timed, name: name.to_owned(), is_name_last, numbers: numbers? })
}

/// The shape that the rows confirm and do not contradict.
fn find_shape(shapes: &'static [DiskShape], rows: &[&BareRow]) -> Option<&'static DiskShape> {
    shapes.iter().find(|shape| {
        let (mut confirmed, mut contradicted) = (0, 0);
        for row in rows.iter().filter(|row| shape.fits_row(row)) {
            match shape.check_sizes(&row.numbers) {
                Some(true) => confirmed += 1,
                Some(false) => contradicted += 1,
                None => {}
            }
        }
        confirmed > 0 && contradicted * 10 <= confirmed
    })
}

impl DiskShape {
    fn fits_row(&self, row: &BareRow) -> bool {
        let is_name_last = self.headings.ends_with("device");
        let is_disk = row.name.starts_with(|c: char| c.is_ascii_alphabetic()) && row.name != "all";
        is_disk && row.is_name_last == is_name_last && self.headings.split_whitespace().count() == row.numbers.len() + 1
    }

    /// Whether sizes follow from what moved; `None` if too little moved.
    fn check_sizes(&self, numbers: &[f64]) -> Option<bool> {
        let mut verdict = None;
        for columns in self.sizes {
            let sum = |indices: &[usize]| indices.iter().map(|index| numbers[*index]).sum::<f64>();
            let (requests, bytes) = (sum(columns.requests), sum(columns.bytes));
            let expected = requests * numbers[columns.size] * self.ratio;
            if requests < MIN_REQUESTS_PER_S || expected.max(bytes) < MIN_MOVED {
                continue;
            }
            let fits = (expected - bytes).abs() <= MAX_DIFFERENCE * expected.max(bytes);
            verdict = Some(fits && verdict != Some(false));
        }
        verdict
    }

    fn to_text(&self, is_timed: bool) -> String {
        if is_timed { format!("# Time {}", self.headings) } else { self.headings.to_owned() }
    }
}

/// Headings of shares of processors that add up to 100 %.
fn find_processor_headings(row: &BareRow) -> Option<String> {
    let is_processor = row.name == "all" || row.name.bytes().all(|b| b.is_ascii_digit());
    let sum: f64 = row.numbers.iter().sum();
    if !is_processor || !(99.0..=101.0).contains(&sum) || row.is_timed == row.name.is_empty() {
        return None;
    }
    if !row.is_timed {
        return (row.numbers.len() == 6).then(|| PROCESSORS.to_owned());
    }
    let headings = TIMED_PROCESSORS.iter().find(|names| names.split(' ').count() == row.numbers.len() + 1)?;
    Some(format!("# Time {headings}"))
}

/// True for the row of all processors below a time.
fn is_processor_total(row: &BareRow) -> bool {
    row.is_timed && row.name == "all" && find_processor_headings(row).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headings_of(text: &str) -> Vec<String> {
        let mut lines: Vec<(usize, String)> = text.lines().map(|line| (1, line.to_owned())).collect();
        let before = lines.clone();
        add_missing_headings(&mut lines);
        lines.into_iter().filter(|line| !before.contains(line)).map(|(_, line)| line).collect()
    }

    #[test]
    fn rows_of_each_release_are_known() {
        for (rows, heading) in [
            ("sdq 0.0 1.0 10.0 20.0 200.0 400.0 20.0 1.5 4.0 2.0 50.0", "rsec/s"),
            ("sdq 0.0 1.0 10.0 20.0 100.0 200.0 20.0 1.5 4.0 2.0 50.0", "rkB/s"),
            ("sdq 0.0 1.0 1000.0 2000.0 9.8 19.5 20.0 1.5 4.0 2.0 50.0", "rMB/s"),
            ("sdq 0.0 1.0 10.0 20.0 100.0 200.0 20.0 1.5 4.0 3.0 5.0 2.0 50.0", "r_await w_await svctm"),
            ("sdq 10.0 20.0 40.0 200.0 0 0 0 0 3.0 5.0 1.5 4.0 10.0 2.0 50.0", "Device r/s w/s rkB/s"),
            ("sdq 10.0 40.0 0 0 3.0 4.0 20.0 200.0 0 0 5.0 10.0 0 0 0 0 0 0 1.5 50.0", "dareq-sz aqu-sz"),
            ("sdq 10.0 40.0 0 0 3.0 4.0 20.0 200.0 0 0 5.0 10.0 0 0 0 0 0 0 0 0 1.5 50.0", "f_await aqu-sz"),
            ("sd5 100.0 50.0 4000.0 2000.0 0.0 6.0 40.0 0 99", "device r/s"),
            ("100.0 50.0 4000.0 2000.0 0.0 6.0 0.0 40.0 0 99 c0t0d0", "asvc_t"),
            ("10:10:01 dev8-16 30.0 200.0 400.0 20.0 1.5 4.0 2.0 50.0", "# Time DEV tps rd_sec/s"),
            ("10:10:01 AM sdq 30.0 100.0 200.0 0.0 10.0 1.5 4.0 50.0", "dkB/s areq-sz aqu-sz await %util"),
            ("10:10:01 all 10.0 0.0 5.0 25.0 0.0 60.0\n10:20:01 all 10.0 0.0 5.0 25.0 0.0 60.0", "%system"),
            (
                "10:10:01 all 10.0 0.0 5.0 24.0 0.0 1.0 0.0 0.0 60.0\n10:10:01 0 9.0 0.0 6.0 24.0 0.0 1.0 0.0 0.0 60.0",
                "%soft",
            ),
        ] {
            let found = headings_of(rows);
            assert!(found.len() == 1 && found[0].contains(heading), "{rows}: {found:?}");
        }
        let reports =
            "4.0 0.0 2.0 61.0 0.0 33.0\nsdq 0.0 1.0 10.0 20.0 200.0 400.0 20.0 1.5 4.0 2.0 50.0\n\n".repeat(2);
        assert_eq!(headings_of(&reports).len(), 4);
    }

    #[test]
    fn other_rows_get_no_headings() {
        for text in [
            // no size confirms the columns
            "sdq 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0",
            "sdq 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0 9.0 10.0 11.0",
            "Device: a b c\nsdq 0.0 1.0 10.0 20.0 200.0 400.0 20.0 1.5 4.0 2.0 50.0",
            "1 5 0 9 8 7 0 0 40 50 60 70 3 4 20 73",
            "10:10:01 all 10.0 0.0 5.0 25.0 0.0 10.0",
            "eth0 10 20 30 40 50 60 70 80 90 100 110",
        ] {
            assert_eq!(headings_of(text), Vec::<String>::new(), "{text}");
        }
    }
}
