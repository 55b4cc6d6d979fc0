//! The one screen of `why`. Its first [`FIRST_LOOK_ROWS`] rows can be read in ten seconds: the
//! bottleneck, the numbers that prove it, the processes that cause it, the first remedy.
//! The rows below give the timeline, the exclusions, and the limits of the answer. Each
//! half shows as much as fits; the less important parts shrink first. Where even the tersest first half is too long,
//! as with several bottlenecks on a small terminal, each bottleneck has a block of a few rows instead ([`blocks`]).

use diskwright_base::Note;
use diskwright_diagnosis::verdict::{Culprit, LogRemark, ProgramActivity};
use diskwright_diagnosis::{Finding, Severity, Verdict};

mod badge;
mod blocks;
mod capture_lines;
mod remedy_lines;

use crate::changes;
use crate::events;
use crate::identity::culprit_line;
use crate::sparkline::sparkline;
use crate::style::{Ink, Style};
use crate::table::TextTable;
use crate::text::{self, cut_text, pad_right, wrap};
use crate::time::DisplayZone;
use crate::trends;
use crate::verdict_words;

/// Rows of a common terminal minus one for the prompt; the first remedy must end within them.
const FIRST_LOOK_ROWS: usize = 23;

/// Further counters that a finding on a screen shows.
const MAX_COUNTERS: usize = 6;

/// Numbers of items and lines shown in the first half.
#[derive(Clone, Copy)]
struct FrontDetail {
    findings: usize,
    /// Lines of the leading finding's explanation.
    explain_lines: usize,
    /// Lines of further counters for the leading finding, and for the others.
    evidence_lines: [usize; 2],
    culprits: usize,
    advice: usize,
    /// Lines of each remedy.
    advice_lines: usize,
}

/// Numbers of items and lines shown in the second half.
#[derive(Clone, Copy)]
struct BackDetail {
    phases: usize,
    /// Number of episodes and of trends.
    episodes_and_trends: usize,
    ruled_out: usize,
    /// Lines of each exclusion and of each trend; with 0 only the names of exclusions are listed.
    lines_each: usize,
    set_aside: usize,
    /// Remarks on how far to trust the answer.
    limit_remarks: usize,
}

/// Details of the first half from generous to terse; the first that fits is used.
const FRONT_DETAILS: &[FrontDetail] = &[
    FrontDetail::new([4, 2, 2, 1], 5, [5, 3]),
    FrontDetail::new([3, 2, 2, 1], 4, [4, 3]),
    FrontDetail::new([3, 2, 1, 0], 3, [3, 3]),
    FrontDetail::new([2, 2, 1, 0], 3, [3, 2]),
    FrontDetail::new([2, 1, 1, 0], 3, [3, 2]),
    FrontDetail::new([2, 1, 1, 0], 2, [2, 2]),
    FrontDetail::new([2, 0, 1, 0], 2, [2, 2]),
    FrontDetail::new([1, 0, 1, 0], 2, [2, 2]),
    FrontDetail::new([1, 0, 0, 0], 2, [1, 2]),
    FrontDetail::new([1, 0, 0, 0], 1, [1, 2]),
    FrontDetail::new([1, 0, 0, 0], 1, [1, 1]),
];
/// Details of the second half, in the same order.
const BACK_DETAILS: &[BackDetail] = &[
    BackDetail::new([8, 4], [9, 3, 2], 5),
    BackDetail::new([6, 3], [9, 2, 2], 4),
    BackDetail::new([6, 3], [9, 2, 1], 3),
    BackDetail::new([4, 2], [9, 2, 1], 3),
    BackDetail::new([4, 2], [9, 1, 1], 2),
    BackDetail::new([4, 2], [9, 1, 0], 2),
    BackDetail::new([4, 1], [9, 1, 0], 2),
    BackDetail::new([3, 1], [9, 0, 0], 1),
    BackDetail::new([3, 0], [9, 0, 0], 1),
    BackDetail::new([2, 0], [9, 0, 0], 0),
    BackDetail::new([0, 0], [9, 0, 0], 0),
    BackDetail::new([0, 0], [0, 0, 0], 0),
];

impl FrontDetail {
    const fn new(
        [findings, explain, first, others]: [usize; 4],
        culprits: usize,
        [advice, advice_lines]: [usize; 2],
    ) -> FrontDetail {
        FrontDetail {
            findings,
            explain_lines: explain,
            evidence_lines: [first, others],
            culprits,
            advice,
            advice_lines,
        }
    }
}

impl BackDetail {
    const fn new([phases, times]: [usize; 2], [ruled_out, lines, set_aside]: [usize; 3], limits: usize) -> BackDetail {
        BackDetail {
            phases,
            episodes_and_trends: times,
            ruled_out,
            lines_each: lines,
            set_aside,
            limit_remarks: limits,
        }
    }
}

/// Renders the screen; every line ends with a newline.
pub fn draw_screen(verdict: &Verdict, zone: &DisplayZone, style: &Style) -> String {
    let mut front = Screen::new(style);
    for detail in FRONT_DETAILS {
        front = Screen::new(style);
        let first_remedy_ends = front.add_front(verdict, zone, *detail);
        // one row remains for the hint that replaces a second half that does not fit
        if first_remedy_ends <= FIRST_LOOK_ROWS && front.lines.len() < style.height {
            break;
        }
    }
    if front.lines.len() >= style.height && !verdict.bottlenecks.is_empty() {
        front = blocks::draw_blocks(verdict, zone, style);
    }
    for detail in BACK_DETAILS {
        let mut screen = front.clone();
        screen.add_back(verdict, zone, *detail);
        if screen.lines.len() <= style.height {
            return screen.into_text();
        }
    }
    front.add_hint();
    front.into_text()
}

/// Renders the same with nothing left out or cut, for a page that scrolls.
pub fn draw_whole(verdict: &Verdict, zone: &DisplayZone, style: &Style) -> String {
    const NO_LIMIT: usize = usize::MAX;
    let mut screen = Screen { is_whole: true, ..Screen::new(style) };
    screen.add_front(verdict, zone, FrontDetail::new([NO_LIMIT; 4], NO_LIMIT, [NO_LIMIT; 2]));
    screen.add_back(verdict, zone, BackDetail::new([NO_LIMIT; 2], [NO_LIMIT; 3], NO_LIMIT));
    screen.into_text()
}

/// Renders the verdicts of other packs, a row each.
pub fn other_packs_table(verdicts: &[Verdict], style: &Style) -> String {
    let mut table = TextTable::new().with_text_column("pack").with_text_column("says").with_text_column("because");
    for verdict in verdicts {
        let instance = if verdict.instance.is_empty() { String::new() } else { format!(" ({})", verdict.instance) };
        let because = match verdict.findings.first() {
            Some(finding) => {
                let value = finding.format_value(finding.value);
                format!(
                    "{} ({value}, {})",
                    verdict_words::finding_title(finding),
                    verdict_words::limit_text(finding, verdict.window.seconds)
                )
            }
            None => "none of its rules fired".to_owned(),
        };
        table.add_row([
            verdict.pack.clone(),
            verdict_words::bottleneck_name(verdict.bottleneck).to_owned() + &instance,
            because,
        ]);
    }
    format!("\n{}\n{}", style.paint(Ink::Bold, "What other packs say"), table.render(style))
}

#[derive(Clone)]
struct Screen<'a> {
    style: &'a Style,
    lines: Vec<String>,
    /// Nothing is cut, whatever the limits of lines.
    is_whole: bool,
}

impl<'a> Screen<'a> {
    fn new(style: &'a Style) -> Screen<'a> {
        Screen { style, lines: Vec::new(), is_whole: false }
    }

    fn into_text(self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// Adds where to read what a short screen leaves out.
    fn add_hint(&mut self) {
        let words = "How far to trust this, and what was ruled out: `--full`";
        self.lines.push(self.style.paint(Ink::Dim, &cut_text(words, self.style.width, "")));
    }

    /// Adds verdict, evidence, culprits and advice. Returns the number of lines up to the end of the first remedy.
    fn add_front(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: FrontDetail) -> usize {
        // of several, the evidence says the same in fewer rows
        let sentence_lines = match verdict.bottlenecks.len() {
            0 | 1 => detail.explain_lines.max(4),
            _ if detail.explain_lines > 1 => detail.explain_lines,
            _ => 0,
        };
        self.add_headline(verdict, zone, sentence_lines);
        self.add_findings(verdict, detail);
        self.add_culprits(verdict, detail);
        self.add_programs(verdict, detail);
        self.add_advice(verdict, detail)
    }

    /// Adds timeline, episodes, trends, exclusions and limits.
    fn add_back(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        self.add_captures(verdict, zone, detail);
        self.add_phases(verdict, zone, detail);
        self.add_changes(verdict, zone, detail);
        self.add_episodes(verdict, zone, detail);
        self.add_trends(verdict, zone, detail);
        self.add_ruled_out(verdict, detail);
        self.add_limit_remarks(verdict, detail);
        self.add_next_commands(verdict);
    }

    /// Adds what to run and send to learn what this log does not show; the last lines of the answer.
    fn add_next_commands(&mut self, verdict: &Verdict) {
        if verdict.send_next.is_empty() {
            return;
        }
        self.lines.push(String::new());
        for next in &verdict.send_next {
            self.add_words("", 2, &verdict_words::next_command_text(next), None, 3);
        }
    }

    /// Adds the bottlenecks over time; nothing if the bottleneck never changed.
    fn add_phases(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        if verdict.phases.len() < 2 || detail.phases == 0 {
            return;
        }
        self.add_heading("Timeline");
        let max_phases = detail.phases;
        // phases with a bottleneck before those without, then the longest; printed in the order of time
        let mut order: Vec<usize> = (0..verdict.phases.len()).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&verdict.phases[*a], &verdict.phases[*b]);
            b.bottleneck.blames().cmp(&a.bottleneck.blames()).then(b.seconds.total_cmp(&a.seconds))
        });
        order.truncate(max_phases);
        order.sort_unstable();
        let sign = self.style.glyph("· ", "- ");
        for phase in order.into_iter().map(|index| &verdict.phases[index]) {
            let ink = (!phase.bottleneck.blames()).then_some(Ink::Dim);
            self.add_words(&format!("  {sign}"), 4, &verdict_words::phase_text(phase, zone), ink, 2);
        }
        self.add_more_line(verdict.phases.len(), max_phases);
    }

    /// Adds all changes of level, where everything is shown; the one that tells most is in the headline.
    fn add_changes(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        let lines = changes::change_lines(verdict, zone);
        if lines.is_empty() || detail.phases != usize::MAX {
            return;
        }
        self.add_heading("What changed when");
        let sign = self.style.glyph("· ", "- ");
        lines.iter().for_each(|line| self.add_words(&format!("  {sign}"), 4, line, None, usize::MAX));
    }

    /// Adds episodes: bottlenecks that were too short to be the answer, such as a bad hour
    /// of a quiet day, each with the options that select its time.
    fn add_episodes(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        if verdict.episodes.is_empty() || detail.episodes_and_trends == 0 {
            return;
        }
        self.add_heading("At times");
        let sign = self.style.glyph("· ", "- ");
        for episode in verdict.episodes.iter().take(detail.episodes_and_trends) {
            self.add_words(
                &format!("  {sign}"),
                4,
                &verdict_words::episode_text(episode, verdict.window.seconds, zone),
                None,
                3,
            );
        }
    }

    /// Adds the quantities that grow towards a limit, and those that changed.
    fn add_trends(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        let lines = trends::trend_lines(verdict, zone);
        if lines.is_empty() || detail.episodes_and_trends == 0 {
            return;
        }
        self.add_heading("Where it is heading");
        let sign = self.style.glyph("· ", "- ");
        let max_shown = if self.is_whole { usize::MAX } else { trends::MAX_SCREEN_TRENDS };
        let shown = max_shown.min(detail.episodes_and_trends);
        for line in lines.iter().take(shown) {
            self.add_words(&format!("  {sign}"), 4, line, None, detail.lines_each.clamp(1, 2));
        }
        self.add_more_line(lines.len(), shown);
        if detail.episodes_and_trends > 2 {
            self.add_words("", 2, &trends::noise_caution(verdict), Some(Ink::Dim), 1);
        }
    }

    fn add_heading(&mut self, words: &str) {
        self.lines.push(String::new());
        self.lines.push(self.style.paint(Ink::Bold, words));
    }

    /// Adds the heading of a list of which so many of all items are shown.
    fn add_heading_of_some(&mut self, words: &str, (total, shown): (usize, usize)) {
        self.add_heading(words);
        let hint = format!(" ({} more: `--full`)", total.saturating_sub(shown));
        // on a narrow screen the list alone shows that it goes on
        let has_room = text::display_width(words) + text::display_width(&hint) <= self.style.width;
        if let Some(line) = self.lines.last_mut().filter(|_| total > shown && has_room) {
            *line += &self.style.paint(Ink::Dim, &hint);
        }
    }

    /// Adds wrapped words with a hanging indent; `first` stands before the first
    /// line. At most `max_lines` lines are added; cut text ends in a mark.
    fn add_words(&mut self, first: &str, indent: usize, words: &str, ink: Option<Ink>, max_lines: usize) {
        let columns = self.style.width.saturating_sub(indent);
        let mut lines = wrap(&self.style.clean_text(words), columns, 0);
        if lines.len() > max_lines && !self.is_whole {
            lines.truncate(max_lines);
            if let Some(last) = lines.last_mut() {
                let more = self.style.glyph(" …", " ...");
                while text::display_width(last) + text::display_width(more) > columns {
                    let end = last.rfind(' ').unwrap_or(0);
                    last.truncate(end);
                }
                last.push_str(more);
            }
        }
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { pad_right(first, indent) } else { " ".repeat(indent) };
            let line = ink.map_or(line.clone(), |ink| self.style.paint(ink, line));
            self.lines.push(format!("{lead}{line}").trim_end().to_owned());
        }
    }

    fn add_headline(&mut self, verdict: &Verdict, zone: &DisplayZone, sentence_lines: usize) {
        let style = self.style;
        let observed = style.clean_text(&verdict_words::headline_text(verdict, zone));
        let lines = wrap(&observed, style.width, 0);
        self.lines.extend(lines.iter().map(|l| style.paint(Ink::Dim, l)));
        self.lines.push(String::new());
        if verdict.bottlenecks.is_empty() {
            self.add_badge((verdict.bottleneck, &verdict.instance, verdict.confidence), "");
            self.add_words("", 0, &verdict.sentence, None, sentence_lines);
        }
        for listed in &verdict.bottlenecks {
            self.add_listed_badge(listed, zone);
            self.add_words("", 0, &listed.sentence, None, sentence_lines);
        }
        self.add_events(verdict, zone, sentence_lines);
        if let Some(line) = trends::warning_line(verdict, zone) {
            self.add_words("", 0, &line, None, if sentence_lines > 2 { 3 } else { 2 });
        }
        if let Some(line) = changes::leading_change_line(verdict, zone) {
            self.add_words("", 0, &line, None, if sentence_lines > 2 { 3 } else { 2 });
        }
    }

    /// Adds kills, filesystems that turned read-only or are full, and devices that failed; one is always shown.
    fn add_events(&mut self, verdict: &Verdict, zone: &DisplayZone, sentence_lines: usize) {
        let lines = events::event_lines(verdict, zone);
        let shown = if sentence_lines > 4 { lines.len() } else { lines.len().min(sentence_lines.clamp(1, 3)) };
        for line in &lines[..shown] {
            self.add_event(line, if sentence_lines > 1 { 3 } else { 2 });
        }
        self.add_more_line(lines.len(), shown);
    }

    /// Adds an event, with a sign before it.
    fn add_event(&mut self, line: &str, max_lines: usize) {
        let sign = self.style.paint(Ink::Bad, self.style.glyph("●", "!"));
        let index = self.lines.len();
        self.add_words("", 2, line, Some(Ink::Bold), max_lines);
        self.lines[index].replace_range(..2, &format!("{sign} "));
    }

    fn add_findings(&mut self, verdict: &Verdict, detail: FrontDetail) {
        let findings = verdict_words::evidence_in_order(verdict);
        if findings.is_empty() {
            return;
        }
        // each bottleneck has a row, however terse the screen
        let shown = &findings[..findings.len().min(detail.findings.max(verdict.bottlenecks.len()))];
        self.add_heading_of_some("Evidence", (findings.len(), shown.len()));
        let values: Vec<String> = shown.iter().map(|f| self.style.clean_text(&f.format_value(f.value))).collect();
        let column = values.iter().map(|v| text::display_width(v)).max().unwrap_or(0);
        let limits: Vec<String> = shown
            .iter()
            .map(|f| self.style.clean_text(&verdict_words::limit_text(f, verdict.window.seconds)))
            .collect();
        let widest = limits.iter().map(|limit| text::display_width(limit)).max().unwrap_or(0);
        let spark_columns = self.style.width.saturating_sub(column + widest + 8).min(20);
        for (index, ((finding, value), limit)) in shown.iter().zip(&values).zip(&limits).enumerate() {
            let [first, others] = detail.evidence_lines;
            let max_lines = if index == 0 { [first, detail.explain_lines] } else { [others, 0] };
            self.add_finding(finding, [&text::pad_left(value, column), limit], spark_columns, max_lines);
        }
    }

    /// Adds a finding: title; sparkline in `columns`, value, and limit with its duration; then
    /// further counters and the explanation, each in at most as many lines as `max_lines` gives.
    fn add_finding(&mut self, finding: &Finding, [value, limit]: [&str; 2], columns: usize, max_lines: [usize; 2]) {
        let style = self.style;
        let (sign, ink) = match finding.severity {
            Severity::Critical => (style.glyph("●", "!"), Ink::Bad),
            Severity::Warning => (style.glyph("▲", "+"), Ink::Warn),
            Severity::Info => (style.glyph("○", "-"), Ink::Dim),
        };
        let index = self.lines.len();
        self.add_words("  ", 4, &verdict_words::finding_title(finding), None, 2);
        self.lines[index].replace_range(..4, &format!("  {} ", style.paint(ink, sign)));
        if columns >= 8 {
            let spark = sparkline(&verdict_words::finding_series(finding), Some(finding.limit), columns, style.unicode);
            let spark = style.paint(ink, &pad_right(&spark, columns));
            self.lines.push(format!("    {spark}  {}  {limit}", style.paint(Ink::Bold, value)));
        } else {
            self.add_words("", 4, &format!("{value}, {limit}"), None, 2);
        }
        if let Some(each) = finding.each_disk_text() {
            self.add_words("", 4, &format!("the limit is {each}"), None, 2);
        }
        if let Some(from) = &finding.limit_from {
            self.add_words("", 4, from, None, 2);
        }
        let [evidence_lines, explain_lines] = max_lines;
        let evidence = verdict_words::evidence_values(finding);
        if evidence_lines > 0 && !evidence.is_empty() {
            let text = |(name, value, unit): &(String, f64, &str)| verdict_words::measurement_text(name, *value, unit);
            let max_counters = if self.is_whole { usize::MAX } else { MAX_COUNTERS };
            let counters: Vec<String> = evidence.iter().take(max_counters).map(text).collect();
            self.add_words("", 4, &format!("with {}", counters.join(", ")), Some(Ink::Dim), evidence_lines);
        }
        if explain_lines > 0 && !finding.explain.is_empty() {
            self.add_words("", 4, &finding.explain, None, explain_lines);
        }
    }

    fn add_ruled_out(&mut self, verdict: &Verdict, detail: BackDetail) {
        let has_nothing = verdict.ruled_out.is_empty() && (detail.lines_each == 0 || verdict.set_aside.is_empty());
        if detail.ruled_out == 0 || has_nothing {
            return;
        }
        if detail.lines_each == 0 {
            let bottlenecks = verdict.ruled_out.iter().map(|exclusion| exclusion.bottleneck);
            let names: Vec<&str> = bottlenecks.map(verdict_words::bottleneck_name).collect();
            self.lines.push(String::new());
            return self.add_words("Ruled out: ", 11, &names.join(", "), None, 1);
        }
        self.add_heading("Ruled out");
        for exclusion in verdict.ruled_out.iter().take(detail.ruled_out) {
            let name = verdict_words::bottleneck_name(exclusion.bottleneck);
            self.add_words(&format!("  {name}"), 16, &exclusion.because, None, detail.lines_each);
        }
        self.add_more_line(verdict.ruled_out.len(), detail.ruled_out);
        for finding in verdict.set_aside.iter().take(detail.set_aside) {
            let prefix = verdict_words::instance_prefix(&finding.instance);
            self.add_words("  set aside", 16, &format!("{prefix}{}; {}", finding.title, finding.because), None, 2);
        }
    }

    fn add_culprits(&mut self, verdict: &Verdict, detail: FrontDetail) {
        if verdict.culprits.is_empty() && verdict.unlisted.is_empty() {
            return;
        }
        let mut rows = verdict_words::culprit_rows(verdict);
        // the headline names the cgroup already: where rows are few, they are its processes'
        rows.sort_by_key(|(culprit, _)| !self.is_whole && culprit.processes == 0);
        // each bottleneck has a row, however terse the screen
        let shown = &rows[..rows.len().min(detail.culprits.max(verdict.bottlenecks.len()))];
        self.add_heading_of_some("Who is doing it", (rows.len(), shown.len()));
        let max_columns = self.max_name_columns();
        let name = |c: &Culprit| cut_text(&self.style.clean_text(&verdict_words::culprit_name(c)), max_columns, "~");
        let names: Vec<String> = shown.iter().map(|(culprit, _)| name(culprit)).collect();
        let indent = names.iter().map(|n| text::display_width(n)).max().unwrap_or(0).max(12) + 4;
        let lines_each = if verdict.bottlenecks.len() > 1 && detail.advice_lines < 3 { 1 } else { 2 };
        for ((culprit, description), name) in shown.iter().zip(names) {
            self.add_words(&format!("  {name}"), indent, description, None, lines_each);
            let line = culprit_line(culprit, if self.is_whole { usize::MAX } else { self.style.width - 4 });
            if !line.is_empty() && self.is_whole {
                self.add_words("", 4, &line, Some(Ink::Dim), usize::MAX);
            } else if !line.is_empty() {
                let line = cut_text(&self.style.clean_text(&line), self.style.width - 4, "~");
                self.lines.push(format!("    {}", self.style.paint(Ink::Dim, &line)));
            }
        }
        // where rows are few, what to type is worth more; nobody at all must have a reason
        let is_terse = lines_each == 1 && !shown.is_empty();
        for words in verdict.unlisted.iter().filter(|_| !is_terse) {
            self.add_words("  ", 2, words, None, 2);
        }
        for requester in verdict.requesters.iter().take(detail.culprits) {
            let words = self.style.clean_text(&verdict_words::requesters_text(requester));
            self.add_words("  ", 2, &words, None, 2);
        }
    }

    /// Columns for the name of a program, beside which its activity stands.
    fn max_name_columns(&self) -> usize {
        if self.is_whole { self.style.width / 2 } else { 30.min(self.style.width / 2) }
    }

    /// Adds the programs with their activity and waits, each with the next place to look.
    fn add_programs(&mut self, verdict: &Verdict, detail: FrontDetail) {
        if verdict.programs.is_empty() {
            return;
        }
        self.add_heading("What the programs do and wait for");
        let shown = &verdict.programs[..verdict.programs.len().min(detail.culprits)];
        let max_columns = self.max_name_columns();
        let name =
            |p: &ProgramActivity| cut_text(&self.style.clean_text(&verdict_words::program_name(p)), max_columns, "~");
        let names: Vec<String> = shown.iter().map(name).collect();
        let indent = names.iter().map(|n| text::display_width(n)).max().unwrap_or(0).max(12) + 4;
        for (program, name) in shown.iter().zip(names) {
            self.add_words(&format!("  {name}"), indent, &program.description, None, detail.advice_lines.min(2));
            if detail.advice_lines > 1 {
                self.add_words("", indent, &program.next_step, Some(Ink::Dim), 2);
            }
        }
        self.add_more_line(verdict.programs.len(), shown.len());
    }

    fn add_limit_remarks(&mut self, verdict: &Verdict, detail: BackDetail) {
        let mut remarks: Vec<String> = verdict.certainty_limits.clone();
        let remark = |r: &LogRemark| Some(format!("{}: {}", verdict_words::remark_kind(&r.kind)?, r.text));
        remarks.extend(verdict.notes.iter().filter(|r| r.kind != Note::UNSEEN).filter_map(remark));
        // the full list is in `--json` and `report`; one line mentions it
        let not_judged = verdict_words::unjudged_text(verdict);
        if remarks.is_empty() && not_judged.is_empty() {
            return;
        }
        if detail.limit_remarks == 0 {
            return self.add_hint();
        }
        self.add_heading("How far to trust this");
        for words in remarks.iter().take(detail.limit_remarks) {
            self.add_words(&format!("  {}", self.style.glyph("·", "-")), 4, words, None, 3);
        }
        self.add_more_line(remarks.len(), detail.limit_remarks);
        if !not_judged.is_empty() {
            self.add_words(&format!("  {}", self.style.glyph("·", "-")), 4, &not_judged, None, 3);
        }
    }

    /// Adds a line on how many items were left out, if any.
    fn add_more_line(&mut self, total: usize, shown: usize) {
        if total > shown {
            let words = format!("  {} {} more: `--full`", self.style.glyph("…", "..."), total - shown);
            self.lines.push(self.style.paint(Ink::Dim, &cut_text(&words, self.style.width, "")));
        }
    }
}

#[cfg(test)]
mod tests;
