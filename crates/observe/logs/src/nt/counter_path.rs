//! Counter paths: `\\HOST\Object(instance)\Counter`.

/// Parts of a counter path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterPath {
    /// The machine, without its backslashes; empty if the path has none.
    pub host: String,
    /// The object, such as `PhysicalDisk`.
    pub object: String,
    /// The instance, with its parent and number (`a/b#2`); empty if the object has none.
    pub instance: String,
    /// The counter.
    pub counter: String,
}

impl CounterPath {
    /// Parses a path. Instances may hold backslashes and parentheses, so the instance reaches to the last `)\`. `None`
    /// if there is no object or no counter.
    ///
    /// ```
    /// let path = diskwright_logs::nt::CounterPath::parse(r"\\DB1\Process(a\b(1))\% Processor Time").unwrap();
    /// assert_eq!((path.host.as_str(), path.instance.as_str()), ("DB1", r"a\b(1)"));
    /// ```
    pub fn parse(text: &str) -> Option<CounterPath> {
        let text = text.trim();
        let (host, rest) = match text.strip_prefix("\\\\") {
            Some(rest) => rest.split_once('\\')?,
            None => ("", text.strip_prefix('\\').unwrap_or(text)),
        };
        let (object, instance, counter) = match (rest.find('('), rest.find('\\')) {
            // a parenthesis behind the first backslash is a part of the counter's name
            (Some(open), Some(slash)) if open < slash => {
                let close = rest.rfind(")\\")?;
                // `Object(a)\Counter`; parentheses in the wrong order make no path
                (&rest[..open], rest.get(open + 1..close)?, &rest[close + 2..])
            }
            (_, Some(slash)) => (&rest[..slash], "", &rest[slash + 1..]),
            (_, None) => return None,
        };
        let (object, counter) = (object.trim(), counter.trim());
        if object.is_empty() || counter.is_empty() {
            return None;
        }
        Some(CounterPath {
            host: host.to_owned(),
            object: object.to_owned(),
            instance: instance.to_owned(),
            counter: counter.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_paths() {
        let cases = [
            (r"\\DB1\PhysicalDisk(0 C:)\% Disk Time", ["DB1", "PhysicalDisk", "0 C:", "% Disk Time"]),
            (r"\Memory\Pages/sec", ["", "Memory", "", "Pages/sec"]),
            (r"Memory\Pages/sec", ["", "Memory", "", "Pages/sec"]),
            (r"\\h\Processor Information(0,29)\% X", ["h", "Processor Information", "0,29", "% X"]),
            (r"\\h\Paging File(\??\C:\pagefile.sys)\% Usage", ["h", "Paging File", r"\??\C:\pagefile.sys", "% Usage"]),
            (r"\\h\Memory\Overcommit (1 minute)", ["h", "Memory", "", "Overcommit (1 minute)"]),
            (r"\\h\O(a)\C (b)", ["h", "O", "a", "C (b)"]),
            (r"\\h\O(a(b)c)\C", ["h", "O", "a(b)c", "C"]),
            (r"\\h\O()\C", ["h", "O", "", "C"]),
        ];
        for (text, parts) in cases {
            let path = CounterPath::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!([path.host, path.object, path.instance, path.counter], parts, "{text}");
        }
    }

    #[test]
    fn rejects_text_that_is_no_path() {
        for text in
            ["", "\\", "\\\\", "\\\\h", "\\\\h\\", "word", "\\\\h\\O(", "\\\\h\\O(a\\b", "\\O\\", "(\\)", "()\\"]
        {
            assert_eq!(CounterPath::parse(text), None, "{text}");
        }
    }
}
