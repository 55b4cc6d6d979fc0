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
    // a sentence that begins like a name: `now it hangs`, `with this I see it` is one too
    (is_first || is_last || is_numbered).then(|| text.to_owned())
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
}
