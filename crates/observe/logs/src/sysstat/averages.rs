//! Rows of averages at the end of sar's tables. They count only if the text has no others: then they are one report.

use diskwright_base::Note;

use super::head_line::HeadLine;
use super::report_row::ReportRow;
use crate::first_report::REPORT_STEP_NS;
use crate::{FrameBatch, TimeBasis};

/// Largest number of rows that are kept.
const MAX_ROWS: usize = 20_000;
const AVERAGES_NOTE: &str = "only averages, whose times are not known: they are one report, counted from 1970; a short \
                             time of trouble may be hidden in them";

/// Values of the rows so far.
#[derive(Default)]
pub(super) struct Averages {
    row: Option<ReportRow>,
    row_count: usize,
}

/// Returns the words behind `Average:`; `Moyenne :` is two words. Empty for other lines.
pub(super) fn cells_of_row<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let is_label = |word: &&str| word.ends_with([':', '：']) && !matches!(*word, "avg-cpu:" | "Device:");
    // lines such as `md3 : active raid6` are no averages
    let is_name =
        words.first().is_some_and(|word| !word.starts_with(|c: char| c.is_ascii() && !c.is_ascii_uppercase()));
    let end = words.iter().take(2).position(|word| is_name && is_label(word));
    end.map_or(&[][..], |end| &words[end + 1..])
}

impl Averages {
    /// Adds a row of a report.
    pub(super) fn add_row(&mut self, report: &str, instance: &str, values: &[(&str, f64)]) {
        if self.row_count >= MAX_ROWS {
            return;
        }
        self.row_count += 1;
        let row = self.row.get_or_insert_with(ReportRow::new);
        for (name, value) in values {
            if let Some(slot) = row.value_slot(report, name, instance) {
                row.put_value(slot, *value);
            }
        }
    }

    /// Emits all rows as one tick.
    pub(super) fn emit_tick(&mut self, batch: &mut FrameBatch<'_>, head: &HeadLine) {
        let Some(mut row) = self.row.take() else { return };
        batch.note_time_basis(TimeBasis::Reports);
        batch.push_note(Note::new(0, Note::WARNING, AVERAGES_NOTE));
        batch.push_topology(0, &head.to_machine().to_topology());
        row.emit_tick(batch, 0, Some(REPORT_STEP_NS.unsigned_abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::read_text;

    #[test]
    fn averages_alone_are_a_report_and_beside_rows_they_are_not() {
        let averages = "Average:        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                        Average:        all      6.00      0.00      4.00     70.00      0.00     20.00\n\n\
                        Average:          DEV       tps     rkB/s     wkB/s     await     %util\n\
                        Average:          sdh    210.00    840.00      0.00      9.00     97.00\n";
        let read = read_text(averages);
        assert_eq!(read.ticks, [(0, 1_000_000_000)]);
        assert_eq!(read.series_values("processor.iowait", "_total"), [0.7]);
        assert_eq!(read.series_values("physical_disk.busy", "sdh"), [0.97]);
        assert_eq!(read.summary.unwrap().time_basis, crate::TimeBasis::Reports);
        let rows = "10:00:01        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                    10:00:11        all      1.00      0.00      1.00      0.00      0.00     98.00\n";
        let read = read_text(&format!("{rows}{averages}"));
        assert_eq!(read.series_values("processor.iowait", "_total"), [0.0]);
        // the row below the headings was not copied
        let headings = "10:00:01        CPU     %user     %nice   %system   %iowait    %steal     %idle\n";
        let read = read_text(&format!("{headings}{}\n", averages.lines().nth(1).unwrap()));
        assert_eq!(read.series_values("processor.iowait", "_total"), [0.7]);
    }
}
