//! Lines with which a person names what follows: `before:`, `=== after the change ===`, `# with cache off`. Output of
//! one tool below two of them is of two runs, which are judged one by one.

/// Most words of a line that names a run by a word of these lists.
const MAX_LABEL_WORDS: usize = 8;
/// A word that names a run where it stands first.
struct RunWord {
    word: &'static str,
    /// Order in time of a run that it names: -1 earlier, 1 later, 0 neither.
    order: i8,
    /// Set if it does so in a line of few words only: `old kernel`, `Monday`.
    is_of_short_line: bool,
}

const fn any_line(word: &'static str, order: i8) -> RunWord {
    RunWord { word, order, is_of_short_line: false }
}

const fn short_line(word: &'static str, order: i8) -> RunWord {
    RunWord { word, order, is_of_short_line: true }
}

/// Words that name a run where they stand first; `before` and `after` in other languages too.
const RUN_WORDS: [RunWord; 56] = [
    any_line("before", -1),
    any_line("after", 1),
    any_line("earlier", -1),
    any_line("later", 1),
    any_line("now", 1),
    any_line("then", 0),
    any_line("without", 0),
    any_line("with", 0),
    any_line("during", 0),
    any_line("while", 0),
    any_line("under", 0),
    any_line("baseline", -1),
    any_line("idle", 0),
    any_line("loaded", 0),
    any_line("healthy", 0),
    any_line("sick", 0),
    any_line("normal", 0),
    any_line("normally", 0),
    any_line("good", 0),
    any_line("bad", 0),
    any_line("slow", 0),
    any_line("fast", 0),
    any_line("afterwards", 1),
    any_line("since", 1),
    short_line("old", -1),
    short_line("new", 1),
    short_line("prior", -1),
    short_line("previous", -1),
    short_line("previously", -1),
    short_line("original", -1),
    short_line("current", 1),
    short_line("currently", 1),
    short_line("today", 1),
    short_line("yesterday", -1),
    short_line("monday", 0),
    short_line("tuesday", 0),
    short_line("wednesday", 0),
    short_line("thursday", 0),
    short_line("friday", 0),
    short_line("saturday", 0),
    short_line("sunday", 0),
    short_line("morning", 0),
    short_line("evening", 0),
    short_line("night", 0),
    short_line("peak", 0),
    short_line("off-peak", 0),
    short_line("vorher", -1),
    short_line("nachher", 1),
    short_line("avant", -1),
    short_line("après", 1),
    short_line("antes", -1),
    short_line("después", 1),
    short_line("depois", 1),
    short_line("prima", -1),
    short_line("dopo", 1),
    short_line("vóór", -1),
];
/// Words that name a run where they stand last: `cache off`.
const LAST_WORDS: [&str; 8] = ["before", "after", "off", "on", "earlier", "later", "disabled", "enabled"];
/// Words before the number of a run: `run 2`, `test #1`.
const NUMBERED_WORDS: [&str; 6] = ["run", "test", "case", "attempt", "try", "round"];
/// Most words of a line of few words.
const MAX_SHORT_LABEL_WORDS: usize = 3;
/// Words before the letter or number of a machine: `server A`, `node 2`.
const MACHINE_WORDS: [&str; 7] = ["server", "host", "machine", "node", "box", "vm", "instance"];
/// Words before a run's word that say nothing.
const ARTICLES: [&str; 6] = ["the", "and", "this", "is", "here", "it's"];

/// Returns the name that a line gives to a run, without the signs around it.
pub(super) fn parse_run_label(line: &str) -> Option<String> {
    let is_sign = |c: char| !c.is_alphanumeric();
    let text = line.trim().trim_matches(is_sign);
    // `Disk Cache: Enabled` is a fact
    if text.contains([':', '=']) {
        return None;
    }
    let words: Vec<String> = text.split_whitespace().map(|word| word.trim_matches(is_sign).to_lowercase()).collect();
    let is_word = |word: &String| word.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '_' | '/'));
    let is_short_number = |word: &String| word.len() <= 4 && word.bytes().all(|b| b.is_ascii_digit());
    if words.is_empty() || words.len() > MAX_LABEL_WORDS || !words.iter().all(|w| is_word(w) || is_short_number(w)) {
        return None;
    }
    let first = words.iter().find(|word| !ARTICLES.contains(&word.as_str()))?;
    let has_number = words.iter().any(is_short_number);
    let is_numbered = has_number && words.len() <= 4 && words.iter().any(|w| NUMBERED_WORDS.contains(&w.as_str()));
    let is_first = RUN_WORDS
        .iter()
        .any(|known| known.word == first && (!known.is_of_short_line || words.len() <= MAX_SHORT_LABEL_WORDS));
    let is_last = words.last().is_some_and(|word| words.len() > 1 && LAST_WORDS.contains(&word.as_str()));
    // a sentence that begins like a name: `now it hangs`, `with this I see it` is one too
    (is_first || is_last || is_numbered || is_machine_label(text)).then(|| text.to_owned())
}

/// True for a label that names a machine: `server A`, `node 2`.
pub(super) fn is_machine_label(label: &str) -> bool {
    let mut words = label.split_whitespace();
    let (Some(kind), Some(which), None) = (words.next(), words.next(), words.next()) else { return false };
    let is_one = which.trim_matches('#').chars().count() == 1 || which.len() <= 3 && which.parse::<u32>().is_ok();
    MACHINE_WORDS.contains(&kind.to_lowercase().as_str()) && is_one
}

/// Order in time that the name of a run tells: -1 for an earlier one, 1 for a later one, 0 where it tells nothing.
#[must_use]
pub fn order_of_label(label: &str) -> i8 {
    let label = label.to_lowercase();
    let has_any = |order: i8| {
        let mut words = label.split(|c: char| !c.is_alphanumeric());
        words.any(|word| RUN_WORDS.iter().any(|known| known.order == order && known.word == word))
    };
    i8::from(has_any(1)) - i8::from(has_any(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_a_run() {
        for (line, label) in [
            ("before:", Some("before")),
            ("BEFORE", Some("BEFORE")),
            ("after change", Some("after change")),
            ("=== After the reboot ===", Some("After the reboot")),
            ("# with cache off", Some("with cache off")),
            ("--- cache on ---", Some("cache on")),
            ("## Run 2", Some("Run 2")),
            ("test #1:", Some("test #1")),
            ("and now, under load:", Some("and now, under load")),
            ("idle:", Some("idle")),
            ("old kernel:", Some("old kernel")),
            ("=== Monday ===", Some("Monday")),
            ("nachher:", Some("nachher")),
            ("server A:", Some("server A")),
            ("New Generation (Eden + 1 Survivor Space):", None),
            ("sda 1.00 2.00", None),
            ("procs -----------memory----------", None),
            ("Average:", None),
            ("Drive Write Cache: Disabled", None),
            ("errors: No known data errors", None),
            ("12:00:01 all", None),
            ("some words about the machine", None),
        ] {
            assert_eq!(parse_run_label(line).as_deref(), label, "{line}");
        }
    }

    #[test]
    fn names_of_runs_tell_their_order() {
        for (label, order) in
            [("before", -1), ("After the reboot", 1), ("old kernel", -1), ("run 2", 0), ("nachher", 1), ("vóór", -1)]
        {
            assert_eq!(order_of_label(label), order, "{label}");
        }
    }
}
