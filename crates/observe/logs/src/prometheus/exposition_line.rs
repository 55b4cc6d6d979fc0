//! Parser of one line of an exposition page: v0.0.4 text and OpenMetrics.

/// Content of a line.
#[derive(Debug, PartialEq)]
pub(crate) enum ExpositionLine<'a> {
    /// Empty, or a comment.
    Blank,
    /// `# TYPE metric type`.
    Type { metric: &'a str, kind: &'a str },
    /// `# EOF`: the page ends here.
    End,
    /// A sample.
    Sample(ExpositionSample<'a>),
}

/// A sample.
#[derive(Debug, PartialEq)]
pub(crate) struct ExpositionSample<'a> {
    /// Metric name, unchanged.
    pub metric: &'a str,
    /// Text between the braces.
    pub labels: &'a str,
    /// Name and labels, which distinguish series.
    pub key: &'a str,
    pub value: f64,
    /// Nanoseconds since 1970, if the line gives a time.
    pub time_ns: Option<i64>,
}

/// Parses a line, or returns what is wrong with it.
pub(crate) fn parse_line(line: &str) -> Result<ExpositionLine<'_>, &'static str> {
    let line = line.trim_matches([' ', '\t', '\r', '\n', '\u{feff}']);
    if line.is_empty() {
        return Ok(ExpositionLine::Blank);
    }
    if let Some(comment) = line.strip_prefix('#') {
        return Ok(parse_comment(comment.trim_start()));
    }
    let SeriesParts { metric, labels, key, rest } = split_series(line)?;
    let mut words = rest.split_ascii_whitespace();
    let value = parse_number(words.next().ok_or("no value")?).ok_or("the value is not a number")?;
    let time_ns = match words.next() {
        None | Some("#") => None,
        Some(word) => Some(parse_timestamp_ns(word).ok_or("the timestamp is not a number")?),
    };
    // an exemplar may follow `#`
    if time_ns.is_some() && words.next().is_some_and(|word| word != "#") {
        return Err("more than a value and a timestamp");
    }
    Ok(ExpositionLine::Sample(ExpositionSample { metric, labels, key, value, time_ns }))
}

fn parse_comment(comment: &str) -> ExpositionLine<'_> {
    if comment == "EOF" {
        return ExpositionLine::End;
    }
    let mut words = comment.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("TYPE"), Some(metric), Some(kind)) => ExpositionLine::Type { metric, kind },
        _ => ExpositionLine::Blank,
    }
}

/// Parts of a sample's line.
struct SeriesParts<'a> {
    metric: &'a str,
    /// Text between the braces.
    labels: &'a str,
    /// Name and labels.
    key: &'a str,
    /// Value and timestamp.
    rest: &'a str,
}

/// Splits a line into its parts.
fn split_series(line: &str) -> Result<SeriesParts<'_>, &'static str> {
    let end = line.find(|c: char| c == '{' || c.is_ascii_whitespace()).ok_or("no value")?;
    let metric = &line[..end];
    let after = line[end..].trim_start();
    let Some(inside) = after.strip_prefix('{') else {
        return match is_metric_name(metric) {
            true => Ok(SeriesParts { metric, labels: "", key: metric, rest: after }),
            false => Err("no metric name"),
        };
    };
    let close = find_closing_brace(inside).ok_or("the labels do not end")?;
    let (labels, rest) = (&inside[..close], &inside[close + 1..]);
    let key = &line[..line.len() - rest.len()];
    if metric.is_empty() {
        // {"a name of any letters", label="value"}
        let quoted = labels.trim_start().strip_prefix('"').ok_or("no metric name")?;
        let end = find_string_end(quoted).ok_or("the metric's name does not end")?;
        let labels = quoted[end + 1..].trim_start().trim_start_matches(',');
        return Ok(SeriesParts { metric: &quoted[..end], labels, key, rest });
    }
    if is_metric_name(metric) { Ok(SeriesParts { metric, labels, key, rest }) } else { Err("no metric name") }
}

fn is_metric_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let is_first_char = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b':';
    bytes.next().is_some_and(is_first_char) && bytes.all(|b| is_first_char(b) || b.is_ascii_digit())
}

/// Finds the closing brace, outside of strings.
fn find_closing_brace(inside: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (index, byte) in inside.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return Some(index),
            _ => {}
        }
    }
    None
}

/// Finds the end of a string whose opening quote comes before `text`.
fn find_string_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Parses the labels between the braces, unescaped.
pub(crate) fn parse_labels(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut labels = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) = split_label_name(rest)?;
        let value = after.trim_start().strip_prefix('"').ok_or("a label's value is not quoted")?;
        let end = find_string_end(value).ok_or("a label's value does not end")?;
        labels.push((name, unescape(&value[..end])));
        rest = value[end + 1..].trim_start();
        rest = match rest.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if rest.is_empty() => rest,
            None => return Err("no comma between two labels"),
        };
    }
    Ok(labels)
}

/// Splits labels behind the first name and its `=`. A quoted name may hold any characters.
fn split_label_name(labels: &str) -> Result<(String, &str), &'static str> {
    const NO_VALUE: &str = "a label without a value";
    let Some(quoted) = labels.strip_prefix('"') else {
        let (name, after) = labels.split_once('=').ok_or(NO_VALUE)?;
        return Ok((name.trim().to_owned(), after));
    };
    let end = find_string_end(quoted).ok_or("a label's name does not end")?;
    let after = quoted[end + 1..].trim_start().strip_prefix('=').ok_or(NO_VALUE)?;
    Ok((unescape(&quoted[..end]), after))
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            _ => out.push(c),
        }
    }
    out
}

/// Parses a value; `+Inf` and `NaN` are numbers too.
fn parse_number(word: &str) -> Option<f64> {
    word.parse().ok()
}

/// Parses a timestamp: milliseconds in the old text format, seconds in OpenMetrics. They are distinguished by size:
/// 1e11 seconds is in the year 5138, 1e11 milliseconds in 1973.
fn parse_timestamp_ns(word: &str) -> Option<i64> {
    let number: f64 = word.parse().ok().filter(|n: &f64| n.is_finite())?;
    let seconds = if number.abs() >= 1e11 { number / 1e3 } else { number };
    // rounded to a microsecond, the resolution of a double
    (seconds.abs() < 9e9).then(|| (seconds * 1e6).round() as i64 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> ExpositionSample<'_> {
        match parse_line(line) {
            Ok(ExpositionLine::Sample(sample)) => sample,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn parses_samples_of_both_formats() {
        let plain = sample("node_load1 0.5");
        assert_eq!((plain.metric, plain.key, plain.value, plain.time_ns), ("node_load1", "node_load1", 0.5, None));
        let old = sample(r#"a{b="c"} 1.5e+09 1700000000123"#);
        assert_eq!((old.labels, old.time_ns), (r#"b="c""#, Some(1_700_000_000_123_000_000)));
        let open = sample(r#"a_total{b="c"} 7 1700000000.5 # {id="}"} 0.67 1700000000"#);
        assert_eq!((open.value, open.time_ns), (7.0, Some(1_700_000_000_500_000_000)));
        assert_eq!(sample(r#"a 7 # {id="x"} 0.67"#).time_ns, None);
        assert!(sample("a NaN").value.is_nan());
        assert_eq!(sample("a +Inf").value, f64::INFINITY);
        assert_eq!(sample(r#"{"dotted.name",b="c"} 1"#).metric, "dotted.name");
    }

    #[test]
    fn unescapes_labels() {
        let odd = sample(r#"a{path="C:\\x",text="line\nand \"quote\" }",} 1"#);
        let labels = parse_labels(odd.labels).unwrap();
        assert_eq!(labels[0].1, r"C:\x");
        assert_eq!(labels[1].1, "line\nand \"quote\" }");
    }

    #[test]
    fn parses_quoted_label_names_that_hold_an_equals_sign() {
        let quoted = sample(r#"{"m","a=b"="c",d="e"} 1"#);
        let labels = parse_labels(quoted.labels).unwrap();
        assert_eq!(labels, [("a=b".to_owned(), "c".to_owned()), ("d".to_owned(), "e".to_owned())]);
        assert_eq!(parse_labels(r#""a=b"#), Err("a label's name does not end"));
    }

    #[test]
    fn reports_what_is_broken() {
        for (line, because) in [
            ("a", "no value"),
            ("a b", "the value is not a number"),
            (r#"a{b="c" 1"#, "the labels do not end"),
            ("9a 1", "no metric name"),
            ("a 1 soon", "the timestamp is not a number"),
            ("a 1 2 3", "more than a value and a timestamp"),
            (r#"{b="c"} 1"#, "no metric name"),
        ] {
            assert_eq!(parse_line(line), Err(because), "{line}");
        }
        assert_eq!(parse_labels(r#"a="b" c="d""#), Err("no comma between two labels"));
        assert_eq!(parse_labels("a=b"), Err("a label's value is not quoted"));
    }

    #[test]
    fn parses_comments() {
        assert_eq!(parse_line("# TYPE a counter"), Ok(ExpositionLine::Type { metric: "a", kind: "counter" }));
        assert_eq!(parse_line("# EOF\r\n"), Ok(ExpositionLine::End));
        assert_eq!(parse_line("# HELP a what it is"), Ok(ExpositionLine::Blank));
        assert_eq!(parse_line("\r\n"), Ok(ExpositionLine::Blank));
    }
}
