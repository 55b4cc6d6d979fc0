//! Lines with which a person names what follows: `before:`, `=== after the change ===`, `# with cache off`. Output of
//! one tool below two of them is of two runs, which are judged one by one.

/// Most words of a line that names a run by a word of these lists.
const MAX_LABEL_WORDS: usize = 8;
/// Words that name a run wherever they stand first.
const FIRST_WORDS: [&str; 24] = [
    "before",
    "after",
    "earlier",
    "later",
    "now",
    "then",
    "without",
    "with",
    "during",
    "while",
    "under",
    "baseline",
    "idle",
    "loaded",
    "healthy",
    "sick",
    "normal",
    "normally",
    "good",
    "bad",
    "slow",
    "fast",
    "afterwards",
    "since",
];
/// Words that name a run where they stand last: `cache off`.
const LAST_WORDS: [&str; 8] = ["before", "after", "off", "on", "earlier", "later", "disabled", "enabled"];
/// Words before the number of a run: `run 2`, `test #1`.
const NUMBERED_WORDS: [&str; 6] = ["run", "test", "case", "attempt", "try", "round"];
/// Words that name a run in a line of few words: `old kernel`, `Monday`, and `before` and `after` in other languages.
const SHORT_LABEL_WORDS: [&str; 32] = [
    "old",
    "new",
    "prior",
    "previous",
    "previously",
    "original",
    "current",
    "currently",
    "today",
    "yesterday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "morning",
    "evening",
    "night",
    "peak",
    "off-peak",
    "vorher",
    "nachher",
    "avant",
    "après",
    "antes",
    "después",
    "depois",
    "prima",
    "dopo",
    "vóór",
];
/// Most words of such a line.
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
    let is_first = FIRST_WORDS.contains(&first.as_str());
    let is_last = words.last().is_some_and(|word| words.len() > 1 && LAST_WORDS.contains(&word.as_str()));
    let is_short = words.len() <= MAX_SHORT_LABEL_WORDS && SHORT_LABEL_WORDS.contains(&first.as_str());
    // a sentence that begins like a name: `now it hangs`, `with this I see it` is one too
    (is_first || is_last || is_numbered || is_short || is_machine_label(text)).then(|| text.to_owned())
}

/// True for a label that names a machine: `server A`, `node 2`.
pub(super) fn is_machine_label(label: &str) -> bool {
    let mut words = label.split_whitespace();
    let (Some(kind), Some(which), None) = (words.next(), words.next(), words.next()) else { return false };
    let is_one = which.trim_matches('#').chars().count() == 1 || which.len() <= 3 && which.parse::<u32>().is_ok();
    MACHINE_WORDS.contains(&kind.to_lowercase().as_str()) && is_one
}

/// Words of labels that say that a run was earlier than others, and later.
const EARLIER_WORDS: [&str; 13] = [
    "before",
    "earlier",
    "baseline",
    "old",
    "prior",
    "previous",
    "previously",
    "original",
    "vorher",
    "avant",
    "antes",
    "prima",
    "yesterday",
];
const LATER_WORDS: [&str; 14] = [
    "after",
    "afterwards",
    "later",
    "now",
    "new",
    "current",
    "currently",
    "today",
    "nachher",
    "après",
    "después",
    "depois",
    "dopo",
    "since",
];

/// Order in time that the name of a run tells: -1 for an earlier one, 1 for a later one, 0 where it tells nothing.
#[must_use]
pub fn order_of_label(label: &str) -> i8 {
    let label = label.to_lowercase();
    let has_any = |known: &[&str]| label.split(|c: char| !c.is_alphanumeric()).any(|word| known.contains(&word));
    i8::from(has_any(&LATER_WORDS)) - i8::from(has_any(&EARLIER_WORDS))
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
            [("before", -1), ("After the reboot", 1), ("old kernel", -1), ("run 2", 0), ("nachher", 1)]
        {
            assert_eq!(order_of_label(label), order, "{label}");
        }
    }
}
