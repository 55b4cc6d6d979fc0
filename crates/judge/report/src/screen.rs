//! The one screen of `why`. Its first [`FIRST_LOOK`] rows can be read in ten seconds: the
//! bottleneck, the numbers that prove it, the processes that cause it, the first remedy.
//! The rows below give the timeline, the exclusions, and the limits of the answer. Each
//! half shows as much as fits; the less important parts shrink first.

use diskwright_base::{Note, units};
use diskwright_diagnosis::verdict::{Culprit, LogRemark, ProgramActivity};
use diskwright_diagnosis::{Bottleneck, Finding, Severity, Verdict};

use crate::spark::sparkline;
use crate::style::{Ink, Style};
use crate::table::TextTable;
use crate::text::{self, cut, left, wrap};
use crate::time::DisplayZone;
use crate::trends;
use crate::words;

/// Rows of a common terminal less one for the prompt; the first remedy must end within them.
const FIRST_LOOK: usize = 23;

/// Numbers of items and lines shown in the first half.
#[derive(Clone, Copy)]
struct FrontDetail {
    findings: usize,
    /// Lines of the leading finding's explanation.
    explain: usize,
    /// Lines of further counters for the leading finding, and for the others.
    evidence: [usize; 2],
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
    times: usize,
    ruled_out: usize,
    /// Lines of each exclusion and of each trend; with 0 only the names of exclusions are listed.
    lines: usize,
    set_aside: usize,
    /// Remarks on how far to trust the answer.
    limits: usize,
}

/// Details of the first half from generous to terse; the first that fits is used.
const FRONTS: &[FrontDetail] = &[
    FrontDetail::new([4, 2, 2, 1], 5, [5, 3]),
    FrontDetail::new([3, 2, 2, 1], 4, [4, 3]),
    FrontDetail::new([3, 2, 1, 0], 3, [3, 3]),
    FrontDetail::new([2, 2, 1, 0], 3, [3, 2]),
    FrontDetail::new([2, 1, 1, 0], 3, [3, 2]),
    FrontDetail::new([2, 1, 1, 0], 2, [2, 2]),
    FrontDetail::new([2, 0, 1, 0], 2, [2, 2]),
    FrontDetail::new([1, 0, 1, 0], 2, [2, 2]),
    FrontDetail::new([1, 0, 0, 0], 2, [1, 2]),
    FrontDetail::new([1, 0, 0, 0], 1, [1, 1]),
];
/// Details of the second half, in the same order.
const BACKS: &[BackDetail] = &[
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
        FrontDetail { findings, explain, evidence: [first, others], culprits, advice, advice_lines }
    }
}

impl BackDetail {
    const fn new([phases, times]: [usize; 2], [ruled_out, lines, set_aside]: [usize; 3], limits: usize) -> BackDetail {
        BackDetail { phases, times, ruled_out, lines, set_aside, limits }
    }
}

/// Renders the screen; every line ends with a newline.
pub fn draw(verdict: &Verdict, zone: &DisplayZone, style: &Style) -> String {
    let mut front = Screen::new(style);
    for detail in FRONTS {
        front = Screen::new(style);
        let first_remedy_ends = front.tell_first(verdict, zone, *detail);
        // one row remains for the hint that replaces a second half that does not fit
        if first_remedy_ends <= FIRST_LOOK && front.lines.len() < style.height {
            break;
        }
    }
    let mut screen = front.clone();
    for detail in BACKS {
        screen = front.clone();
        screen.tell_behind(verdict, zone, *detail);
        if screen.lines.len() <= style.height {
            break;
        }
    }
    screen.lines.join("\n") + "\n"
}

/// Renders the same with nothing left out or cut, for a page that scrolls.
pub fn whole(verdict: &Verdict, zone: &DisplayZone, style: &Style) -> String {
    const ALL: usize = usize::MAX;
    let mut screen = Screen::new(style);
    screen.tell_first(verdict, zone, FrontDetail::new([ALL; 4], ALL, [ALL; 2]));
    screen.tell_behind(verdict, zone, BackDetail::new([ALL; 2], [ALL; 3], ALL));
    screen.lines.join("\n") + "\n"
}

/// Renders the verdicts of other packs, a row each.
pub fn others(verdicts: &[Verdict], style: &Style) -> String {
    let mut table = TextTable::new().text("pack").text("says").text("because");
    for verdict in verdicts {
        let instance = if verdict.instance.is_empty() { String::new() } else { format!(" ({})", verdict.instance) };
        let because = match verdict.findings.first() {
            Some(finding) => {
                let value = units::format_value(finding.value, &finding.unit);
                format!("{} ({value}, {})", words::titled(finding), words::held(finding, verdict.window.seconds))
            }
            None => "none of its rules fired".to_owned(),
        };
        table.row([verdict.pack.clone(), words::bottleneck(verdict.bottleneck).to_owned() + &instance, because]);
    }
    format!("\n{}\n{}", style.paint(Ink::Bold, "What other packs say"), table.render(style))
}

#[derive(Clone)]
struct Screen<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl<'a> Screen<'a> {
    fn new(style: &'a Style) -> Screen<'a> {
        Screen { style, lines: Vec::new() }
    }

    /// Adds verdict, evidence, culprits and advice. Returns the number of lines up to the end of the first remedy.
    fn tell_first(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: FrontDetail) -> usize {
        self.headline(verdict, zone);
        self.findings(verdict, detail);
        self.culprits(verdict, detail);
        self.programs(verdict, detail);
        self.advice(verdict, detail)
    }

    /// Adds timeline, episodes, trends, exclusions and limits.
    fn tell_behind(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        self.phases(verdict, zone, detail);
        self.episodes(verdict, zone, detail);
        self.trends(verdict, zone, detail);
        self.ruled_out(verdict, detail);
        self.limits(verdict, detail);
    }

    /// Adds the bottlenecks over time; nothing if the bottleneck never changed.
    fn phases(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        if verdict.phases.len() < 2 || detail.phases == 0 {
            return;
        }
        self.heading("Timeline");
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
            self.words(&format!("  {sign}"), 4, &words::phase(phase, zone), ink, 2);
        }
        self.more(verdict.phases.len(), max_phases);
    }

    /// Adds episodes: bottlenecks that were too short to be the answer, such as a bad hour
    /// of a quiet day, each with the options that select its time.
    fn episodes(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        if verdict.episodes.is_empty() || detail.times == 0 {
            return;
        }
        self.heading("At times");
        let sign = self.style.glyph("· ", "- ");
        for episode in verdict.episodes.iter().take(detail.times) {
            self.words(&format!("  {sign}"), 4, &words::episode(episode, verdict.window.seconds, zone), None, 3);
        }
    }

    /// Adds the quantities that grow towards a limit, and those that changed.
    fn trends(&mut self, verdict: &Verdict, zone: &DisplayZone, detail: BackDetail) {
        let lines = trends::lines(verdict, zone);
        if lines.is_empty() || detail.times == 0 {
            return;
        }
        self.heading("Where it is heading");
        let sign = self.style.glyph("· ", "- ");
        let shown = trends::TOLD.min(detail.times);
        for line in lines.iter().take(shown) {
            self.words(&format!("  {sign}"), 4, line, None, detail.lines.clamp(1, 2));
        }
        self.more(lines.len(), shown);
        if detail.times > 2 {
            self.words("", 2, &trends::caution(verdict), Some(Ink::Dim), 1);
        }
    }

    fn heading(&mut self, words: &str) {
        self.lines.push(String::new());
        self.lines.push(self.style.paint(Ink::Bold, words));
    }

    /// Adds wrapped words with a hanging indent; `first` stands before the first
    /// line. At most `max_lines` lines are added; cut text ends in a mark.
    fn words(&mut self, first: &str, indent: usize, words: &str, ink: Option<Ink>, max_lines: usize) {
        let room = self.style.width.saturating_sub(indent);
        let mut lines = wrap(&self.style.clean(words), room, 0);
        if lines.len() > max_lines {
            lines.truncate(max_lines);
            if let Some(last) = lines.last_mut() {
                let more = self.style.glyph(" …", " ...");
                while text::width(last) + text::width(more) > room {
                    let end = last.rfind(' ').unwrap_or(0);
                    last.truncate(end);
                }
                last.push_str(more);
            }
        }
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { left(first, indent) } else { " ".repeat(indent) };
            let line = ink.map_or(line.clone(), |ink| self.style.paint(ink, line));
            self.lines.push(format!("{lead}{line}").trim_end().to_owned());
        }
    }

    fn headline(&mut self, verdict: &Verdict, zone: &DisplayZone) {
        let style = self.style;
        let window = &verdict.window;
        let host = if verdict.host.is_empty() { "this machine" } else { &verdict.host };
        let when = zone.range_between(&window.from, &window.to);
        let watched = format!("{}, {when} ({})", style.clean(host), words::watched(verdict));
        let lines = wrap(&watched, style.width, 0);
        self.lines.extend(lines.iter().map(|l| style.paint(Ink::Dim, l)));
        self.lines.push(String::new());
        let ink = match verdict.bottleneck {
            Bottleneck::None => Ink::Good,
            Bottleneck::Unknown => Ink::Warn,
            _ => Ink::Bad,
        };
        let badge = words::bottleneck(verdict.bottleneck).to_uppercase();
        let sure = format!("confidence {}", words::sure(verdict));
        let bar = bar(verdict.confidence, if style.width < 60 { 4 } else { 12 }, style);
        let instance = cut(&style.clean(&verdict.instance), style.width.saturating_sub(badge.len() + 36), "~");
        let subject = if instance.is_empty() { badge.clone() } else { format!("{badge}  {instance}") };
        let gap = style.width.saturating_sub(text::width(&subject) + text::width(&bar) + text::width(&sure) + 2);
        self.lines.push(format!(
            "{}{}{}  {sure}",
            style.paint(ink, &badge) + &style.paint(Ink::Bold, &subject[badge.len()..]),
            " ".repeat(gap.max(1)),
            style.paint(Ink::Dim, &bar),
        ));
        self.words("", 0, &verdict.sentence, None, 4);
    }

    fn findings(&mut self, verdict: &Verdict, detail: FrontDetail) {
        if verdict.findings.is_empty() {
            return;
        }
        self.heading("Evidence");
        let shown = &verdict.findings[..verdict.findings.len().min(detail.findings)];
        let values: Vec<String> =
            shown.iter().map(|f| self.style.clean(&units::format_value(f.value, &f.unit))).collect();
        let column = values.iter().map(|v| text::width(v)).max().unwrap_or(0);
        let held: Vec<String> =
            shown.iter().map(|f| self.style.clean(&words::held(f, verdict.window.seconds))).collect();
        let widest = held.iter().map(|held| text::width(held)).max().unwrap_or(0);
        let spark = self.style.width.saturating_sub(column + widest + 8).min(20);
        for (index, ((finding, value), held)) in shown.iter().zip(&values).zip(&held).enumerate() {
            let [first, others] = detail.evidence;
            let more = if index == 0 { [first, detail.explain] } else { [others, 0] };
            self.finding(finding, [&text::right(value, column), held], spark, more);
        }
        self.more(verdict.findings.len(), detail.findings);
    }

    /// Adds a finding: title; sparkline in `columns`, value, and limit with its duration; then
    /// further counters and the explanation, in at most as many lines as `more` gives for each.
    fn finding(&mut self, finding: &Finding, [value, held]: [&str; 2], columns: usize, more: [usize; 2]) {
        let style = self.style;
        let (sign, ink) = match finding.severity {
            Severity::Critical => (style.glyph("●", "!"), Ink::Bad),
            Severity::Warning => (style.glyph("▲", "+"), Ink::Warn),
            Severity::Info => (style.glyph("○", "-"), Ink::Dim),
        };
        let index = self.lines.len();
        self.words("  ", 4, &words::titled(finding), None, 2);
        self.lines[index].replace_range(..4, &format!("  {} ", style.paint(ink, sign)));
        if columns >= 8 {
            let spark = sparkline(&words::series(finding), Some(finding.limit), columns, style.unicode);
            let spark = style.paint(ink, &left(&spark, columns));
            self.lines.push(format!("    {spark}  {}  {held}", style.paint(Ink::Bold, value)));
        } else {
            self.words("", 4, &format!("{value}, {held}"), None, 2);
        }
        if let Some(from) = &finding.limit_from {
            self.words("", 4, from, None, 2);
        }
        let [evidence, explain] = more;
        let beside = words::evidence(finding);
        if evidence > 0 && !beside.is_empty() {
            let counter_text =
                |(name, value, unit): &(String, f64, &str)| format!("{name} {}", units::format_value(*value, unit));
            let counters: Vec<String> = beside.iter().take(6).map(counter_text).collect();
            self.words("", 4, &format!("with {}", counters.join(", ")), Some(Ink::Dim), evidence);
        }
        if explain > 0 && !finding.explain.is_empty() {
            self.words("", 4, &finding.explain, None, explain);
        }
    }

    fn ruled_out(&mut self, verdict: &Verdict, detail: BackDetail) {
        let nothing = verdict.ruled_out.is_empty() && (detail.lines == 0 || verdict.set_aside.is_empty());
        if detail.ruled_out == 0 || nothing {
            return;
        }
        if detail.lines == 0 {
            let names: Vec<&str> = verdict.ruled_out.iter().map(|ruled| words::bottleneck(ruled.bottleneck)).collect();
            self.lines.push(String::new());
            return self.words("Ruled out: ", 11, &names.join(", "), None, 1);
        }
        self.heading("Ruled out");
        for ruled in verdict.ruled_out.iter().take(detail.ruled_out) {
            let name = words::bottleneck(ruled.bottleneck);
            self.words(&format!("  {name}"), 16, &ruled.because, None, detail.lines);
        }
        self.more(verdict.ruled_out.len(), detail.ruled_out);
        for aside in verdict.set_aside.iter().take(detail.set_aside) {
            let place = words::place(&aside.instance);
            self.words("  set aside", 16, &format!("{place}{}; {}", aside.title, aside.because), None, 2);
        }
    }

    fn culprits(&mut self, verdict: &Verdict, detail: FrontDetail) {
        if verdict.culprits.is_empty() {
            return;
        }
        self.heading("Who is doing it");
        let shown = &verdict.culprits[..verdict.culprits.len().min(detail.culprits)];
        let longest = 30.min(self.style.width / 2);
        let name = |c: &Culprit| cut(&self.style.clean(&words::culprit(c)), longest, "~");
        let names: Vec<String> = shown.iter().map(name).collect();
        let indent = names.iter().map(|n| text::width(n)).max().unwrap_or(0).max(12) + 4;
        for (culprit, name) in shown.iter().zip(names) {
            self.words(&format!("  {name}"), indent, &culprit.description, None, 2);
        }
        for asked in verdict.requesters.iter().take(detail.culprits) {
            let words = self.style.clean(&words::asked(asked));
            self.words("  ", 2, &words, None, 2);
        }
        self.more(verdict.culprits.len(), detail.culprits);
    }

    /// Adds the programs with their activity and waits, each with the next place to look.
    fn programs(&mut self, verdict: &Verdict, detail: FrontDetail) {
        if verdict.programs.is_empty() {
            return;
        }
        self.heading("What the programs do and wait for");
        let shown = &verdict.programs[..verdict.programs.len().min(detail.culprits)];
        let longest = 30.min(self.style.width / 2);
        let name = |p: &ProgramActivity| cut(&self.style.clean(&words::program(p)), longest, "~");
        let names: Vec<String> = shown.iter().map(name).collect();
        let indent = names.iter().map(|n| text::width(n)).max().unwrap_or(0).max(12) + 4;
        for (program, name) in shown.iter().zip(names) {
            self.words(&format!("  {name}"), indent, &program.description, None, detail.advice_lines.min(2));
            if detail.advice_lines > 1 {
                self.words("", indent, &program.next_step, Some(Ink::Dim), 2);
            }
        }
        self.more(verdict.programs.len(), shown.len());
    }

    /// Adds the remedies. Returns the number of lines up to the end of the first remedy.
    fn advice(&mut self, verdict: &Verdict, detail: FrontDetail) -> usize {
        if verdict.advice.is_empty() {
            return self.lines.len();
        }
        self.heading("What to do, cheapest first");
        let mut first_ends = 0;
        for (index, remedy) in verdict.advice.iter().take(detail.advice).enumerate() {
            self.words(&format!("  {}.", index + 1), 5, &remedy.text, None, detail.advice_lines);
            if index == 0 {
                first_ends = self.lines.len();
            }
        }
        self.more(verdict.advice.len(), detail.advice);
        first_ends
    }

    fn limits(&mut self, verdict: &Verdict, detail: BackDetail) {
        let mut remarks: Vec<String> = verdict.certainty_limits.clone();
        let remark = |r: &LogRemark| Some(format!("{}: {}", words::remark_kind(&r.kind)?, r.text));
        remarks.extend(verdict.notes.iter().filter(|r| r.kind != Note::UNSEEN).filter_map(remark));
        // the full list is in `--json` and `report`; one line mentions it
        let not_judged = words::not_judged(verdict);
        if remarks.is_empty() && not_judged.is_empty() {
            return;
        }
        if detail.limits == 0 {
            let words = "How far to trust this, and what was ruled out: `--json` or `report`";
            self.lines.push(self.style.paint(Ink::Dim, &cut(words, self.style.width, "")));
            return;
        }
        self.heading("How far to trust this");
        for words in remarks.iter().take(detail.limits) {
            self.words(&format!("  {}", self.style.glyph("·", "-")), 4, words, None, 3);
        }
        self.more(remarks.len(), detail.limits);
        if !not_judged.is_empty() {
            self.words(&format!("  {}", self.style.glyph("·", "-")), 4, &not_judged, None, 3);
        }
    }

    /// Adds a line on how many items were left out, if any.
    fn more(&mut self, all: usize, shown: usize) {
        if all > shown {
            let words = format!("  {} {} more: `--json` or `report`", self.style.glyph("…", "..."), all - shown);
            self.lines.push(self.style.paint(Ink::Dim, &cut(&words, self.style.width, "")));
        }
    }
}

/// Draws a share as a bar of `columns`.
fn bar(share: f64, columns: usize, style: &Style) -> String {
    let full = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
    style.glyph("█", "#").repeat(full) + &style.glyph("░", ".").repeat(columns - full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{expect, fixture};

    #[test]
    fn screens_stay_as_expected() {
        let utc = DisplayZone::utc();
        let verdict = fixture::verdict();
        let ascii = Style { unicode: false, ..Style::plain(72) };
        let colour = Style { colour: true, ..Style::plain(100) };
        expect::holds("screen/disk.txt", &draw(&verdict, &utc, &Style::plain(80)));
        expect::holds("screen/disk-ascii.txt", &draw(&verdict, &utc, &ascii));
        expect::holds("screen/disk-colour.txt", &draw(&verdict, &utc, &colour));
        expect::holds("screen/others.txt", &others(&[verdict, fixture::other_verdict()], &Style::plain(80)));
        expect::holds("screen/none.txt", &draw(&fixture::other_verdict(), &utc, &Style::plain(80)));
    }

    #[test]
    fn phases_stand_on_the_screen_where_the_answer_changed() {
        use diskwright_diagnosis::verdict::VerdictPhase;
        let phase = |from: &str, to: &str, seconds: f64, bottleneck: Bottleneck| VerdictPhase {
            from: format!("2026-11-21T{from}Z"),
            to: format!("2026-11-21T{to}Z"),
            seconds,
            bottleneck,
            instance: if bottleneck == Bottleneck::Disk { "sda".into() } else { String::new() },
            confidence: 0.87,
            rule: String::new(),
            title: if bottleneck == Bottleneck::Disk { "it is overloaded".into() } else { String::new() },
            bookmark: if bottleneck == Bottleneck::Disk { "backup".into() } else { String::new() },
        };
        let mut verdict = fixture::verdict();
        verdict.phases = vec![
            phase("22:21:00", "22:22:00", 60.0, Bottleneck::None),
            phase("22:22:00", "22:22:25", 25.0, Bottleneck::Disk),
            phase("22:22:25", "22:23:30", 65.0, Bottleneck::None),
        ];
        let screen = draw(&verdict, &DisplayZone::utc(), &Style::plain(100)).replace('\n', " ");
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("Timeline"), "{words}");
        let told = "22:22:00 to 22:22:25 UTC (25 s) after \u{201c}backup\u{201d}: disk sda, it is overloaded \
                    (confidence 87 %)";
        assert!(words.contains(told), "{words}");
        verdict.phases.truncate(1);
        assert!(!draw(&verdict, &DisplayZone::utc(), &Style::plain(100)).contains("Timeline"));
    }

    #[test]
    fn where_nothing_is_blamed_programs_tell_what_they_wait_for() {
        let mut verdict = fixture::verdict();
        verdict.bottleneck = Bottleneck::None;
        verdict.findings.clear();
        verdict.culprits.clear();
        verdict.programs = fixture::programs();
        let screen = draw(&verdict, &DisplayZone::utc(), &Style::plain(100));
        assert!(screen.contains("What the programs do and wait for"), "{screen}");
        assert!(screen.contains("shop (31)") && screen.contains("24 threads wait for a lock"), "{screen}");
        assert!(screen.contains("`gdb -p 31 -batch"), "{screen}");
        assert!(!screen.contains('\x1b'), "{screen}");
    }

    #[test]
    fn one_screen_is_enough_whatever_there_is_to_say() {
        let mut verdict = fixture::verdict();
        for _ in 0..4 {
            verdict.findings.extend(verdict.findings.clone());
            verdict.culprits.extend(verdict.culprits.clone());
            verdict.advice.extend(verdict.advice.clone());
            verdict.ruled_out.extend(verdict.ruled_out.clone());
            verdict.certainty_limits.extend(verdict.certainty_limits.clone());
            verdict.unjudged.extend(verdict.unjudged.clone());
        }
        verdict.sentence = verdict.sentence.repeat(9);
        let programs = (0..4).flat_map(|_| fixture::programs()).collect();
        let nothing = Verdict { bottleneck: Bottleneck::None, programs, culprits: Vec::new(), ..verdict.clone() };
        for (width, height) in [(40, 45), (60, 45), (80, 45), (100, 45), (80, 23), (100, 23), (80, 30)] {
            for unicode in [true, false] {
                let style = Style { unicode, height, ..Style::plain(width) };
                for verdict in [&verdict, &nothing, &fixture::verdict(), &fixture::other_verdict()] {
                    let screen = draw(verdict, &DisplayZone::utc(), &style);
                    assert!(screen.lines().count() <= style.height, "{width}:\n{screen}");
                    // a screen too short for the section has a hint to it instead, with the same words
                    assert!(screen.contains("How far to trust this"), "{width}:\n{screen}");
                    assert!(unicode || screen.is_ascii());
                    for line in screen.lines() {
                        assert!(text::width(line) <= width, "{width}: {line}");
                    }
                }
            }
        }
    }

    /// At 80 columns the first rows have the verdict, its evidence, a culprit and the first remedy.
    #[test]
    fn the_first_look_has_all_that_is_needed_to_begin() {
        let mut much = fixture::verdict();
        for _ in 0..4 {
            much.findings.extend(much.findings.clone());
            much.culprits.extend(much.culprits.clone());
            much.advice.extend(much.advice.clone());
        }
        much.sentence = much.sentence.repeat(3);
        much.findings[0].explain = much.findings[0].explain.repeat(5);
        for verdict in [&fixture::verdict(), &much] {
            let screen = draw(verdict, &DisplayZone::utc(), &Style::plain(80));
            let first: Vec<&str> = screen.lines().take(FIRST_LOOK).collect();
            let place = |words: &str| first.iter().position(|line| line.contains(words));
            let order =
                ["confidence 92 %", "sda: more than two requests", "postgres (812)", "  1. Move work"].map(place);
            assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}:\n{screen}");
        }
    }

    #[test]
    fn what_was_not_judged_is_one_line() {
        let mut verdict = fixture::verdict();
        verdict.notes.retain(|remark| remark.kind == Note::UNSEEN);
        verdict.notes.truncate(1);
        verdict.unjudged.truncate(1);
        let screen = draw(&verdict, &DisplayZone::utc(), &Style::plain(80));
        let told: Vec<&str> = screen.lines().filter(|line| line.contains("lacked data")).collect();
        let unseen = if verdict.notes.is_empty() { "" } else { ", 1 source could not be read" };
        let line = format!("1 rule lacked data{unseen} (`--json`, `report`)");
        assert!(told.len() == 1 && told[0].ends_with(&line), "{screen}");
    }

    #[test]
    fn names_cannot_write_to_the_terminal() {
        let mut verdict = fixture::verdict();
        let evil = "\x1b]0;owned\x07\x1b[2J\nx";
        verdict.instance = evil.into();
        verdict.host = evil.into();
        verdict.sentence = evil.into();
        verdict.findings[0].instance = evil.into();
        verdict.culprits[0].name = evil.into();
        verdict.advice[0].text = evil.into();
        verdict.ruled_out[0].because = evil.into();
        let screen = draw(&verdict, &DisplayZone::utc(), &Style::plain(80));
        assert!(!screen.contains(['\x1b', '\x07']));
    }
}
