//! Texts of statements for records: literals are masked, because they are data of users; comments are left out, blanks
//! are joined, and a long text is cut.

/// Largest length of a statement in a record, characters.
const MAX_STATEMENT_CHARS: usize = 200;
/// Stands for a literal.
const MASK: char = '?';

/// How quotes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuoteStyle {
    /// Double quotes enclose names, dollars a literal.
    Standard,
    /// Double quotes enclose a literal, a backslash stands before a quote in it, `#` begins a comment.
    Mysql,
}

/// Returns the text with `?` in place of literals, in one line, cut at its end.
pub(crate) fn mask_statement(text: &str, style: QuoteStyle) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut masked = MaskedText::default();
    let mut position = 0;
    while position < characters.len() && !masked.is_full() {
        let (c, next) = (characters[position], characters.get(position + 1).copied());
        let is_comment = (c == '-' && next == Some('-')) || (c == '#' && style == QuoteStyle::Mysql);
        position = match c {
            _ if is_comment => find_from(&characters, position, |i| characters[i] == '\n'),
            '/' if next == Some('*') => {
                find_from(&characters, position + 2, |i| characters[i] == '*' && characters.get(i + 1) == Some(&'/'))
                    + 2
            }
            '\'' => {
                let is_escaped = style == QuoteStyle::Mysql || masked.ends_in_escape_prefix();
                end_of_literal(&characters, position, is_escaped)
            }
            '"' if style == QuoteStyle::Mysql => end_of_literal(&characters, position, true),
            '"' | '`' => {
                let end = end_of_literal(&characters, position, false);
                characters[position..end].iter().for_each(|c| masked.push(*c));
                position = end;
                continue;
            }
            '$' if style == QuoteStyle::Standard && !masked.ends_in_word() => {
                match end_of_dollars(&characters, position) {
                    Some(end) => end,
                    None => {
                        masked.push(c);
                        position += 1;
                        continue;
                    }
                }
            }
            '0'..='9' if !masked.ends_in_word() => end_of_number(&characters, position),
            _ => {
                masked.push(c);
                position += 1;
                continue;
            }
        };
        match c {
            _ if is_comment => masked.push(' '),
            '/' => masked.push(' '),
            _ => masked.push_mask(),
        }
    }
    masked.finish(position < characters.len())
}

/// First position from `start` on at which `is_end` holds, or the end.
fn find_from(characters: &[char], start: usize, is_end: impl Fn(usize) -> bool) -> usize {
    (start..characters.len()).find(|i| is_end(*i)).unwrap_or(characters.len())
}

/// Position behind a quoted text; a text that was cut has no end. A doubled quote stands for itself.
fn end_of_literal(characters: &[char], start: usize, has_backslashes: bool) -> usize {
    let quote = characters[start];
    let mut position = start + 1;
    while position < characters.len() {
        match characters[position] {
            '\\' if has_backslashes => position += 2,
            c if c == quote && characters.get(position + 1) == Some(&quote) => position += 2,
            c if c == quote => return position + 1,
            _ => position += 1,
        }
    }
    characters.len()
}

/// Position behind `$tag$ … $tag$`; `None` where it is no such literal, such as `$1`.
fn end_of_dollars(characters: &[char], start: usize) -> Option<usize> {
    let length = characters[start + 1..].iter().position(|c| *c == '$')?;
    let tag = &characters[start..start + length + 2];
    let is_tag = |c: &char| c.is_alphabetic() || *c == '_' || c.is_numeric();
    let inner = &tag[1..tag.len() - 1];
    if !inner.iter().all(is_tag) || inner.first().is_some_and(|c| c.is_numeric()) {
        return None;
    }
    let body = start + tag.len();
    let end = (body..characters.len()).find(|i| characters[*i..].starts_with(tag));
    Some(end.map_or(characters.len(), |end| end + tag.len()))
}

fn end_of_number(characters: &[char], start: usize) -> usize {
    find_from(characters, start, |i| !(characters[i].is_alphanumeric() || characters[i] == '.' || characters[i] == '_'))
}

/// A text that is being masked.
#[derive(Default)]
struct MaskedText {
    text: String,
    chars: usize,
}

impl MaskedText {
    fn push(&mut self, c: char) {
        let c = if diskwright_base::text::is_control(c) { ' ' } else { c };
        if c.is_whitespace() && (self.text.is_empty() || self.text.ends_with(' ')) {
            return;
        }
        self.text.push(if c.is_whitespace() { ' ' } else { c });
        self.chars += 1;
    }

    /// Adds a mask; of a list of masks only the first.
    fn push_mask(&mut self) {
        // E'…', N'…', x'…': the letter belongs to the literal
        let prefix = self.text.chars().next_back().filter(|c| "EeNnXxBbUu".contains(*c));
        let before = self.text.chars().rev().nth(1);
        if prefix.is_some() && before.is_none_or(|c| !(c.is_alphanumeric() || c == '_' || c == '"')) {
            self.text.pop();
            self.chars -= 1;
        }
        self.drop_sign();
        if self.text.trim_end().ends_with("?,") {
            let end = self.text.trim_end().len() - 1;
            self.text.truncate(end);
            self.text.push_str(", …");
        } else if !self.text.trim_end_matches([' ', ',']).ends_with('…') {
            self.text.push(MASK);
        } else {
            let end = self.text.trim_end_matches([' ', ',']).len();
            self.text.truncate(end);
        }
        self.chars = self.text.chars().count();
    }

    /// Removes the sign of a number: a statement is the same with a negative value.
    fn drop_sign(&mut self) {
        if let Some(before) = self.text.strip_suffix('-')
            && before.trim_end().ends_with(['(', ',', '=', '+', '-', '*', '/', '<', '>'])
        {
            self.text.pop();
        }
    }

    /// True behind the E of E'…', in which a backslash stands before a quote.
    fn ends_in_escape_prefix(&self) -> bool {
        let mut last = self.text.chars().rev();
        let is_prefix = last.next().is_some_and(|c| matches!(c, 'e' | 'E'));
        is_prefix && last.next().is_none_or(|c| !(c.is_alphanumeric() || c == '_'))
    }

    /// True where a digit would go on with a name.
    fn ends_in_word(&self) -> bool {
        self.text.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
    }

    fn is_full(&self) -> bool {
        self.chars > MAX_STATEMENT_CHARS
    }

    fn finish(self, is_cut: bool) -> String {
        let text = self.text.trim_end_matches([' ', ';']);
        match text.char_indices().nth(MAX_STATEMENT_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None if is_cut => format!("{text}…"),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standard(text: &str) -> String {
        mask_statement(text, QuoteStyle::Standard)
    }

    #[test]
    fn literals_are_masked_and_names_stay() {
        for (text, expected) in [
            ("SELECT * FROM t1 WHERE id = 42 AND n='O''Hara';", "SELECT * FROM t1 WHERE id = ? AND n=?"),
            ("select a2, $1, -1.5e10 from \"t 1\"", "select a2, $1, ? from \"t 1\""),
            ("select a - 1, b + -1, -c", "select a - ?, b + ?, -c"),
            ("insert into x values (1, 'a', 2)", "insert into x values (?, …)"),
            ("alter role u password E'sec\\'ret'", "alter role u password ?"),
            ("select $$secret$$, $a$it's $$ secret$a$ from t", "select ?, … from t"),
            ("select 'C:\\', secret_column from t", "select ?, secret_column from t"),
            ("select 1 -- a comment\n  from /* and\nanother */ t", "select ? from t"),
            ("select 'cut in the mid", "select ?"),
            ("select x'ff', nx from t", "select ?, nx from t"),
            ("a\u{1b}[2Jb", "a [?"),
        ] {
            assert_eq!(standard(text), expected, "{text}");
        }
    }

    #[test]
    fn double_quotes_enclose_literals_in_mysql() {
        let masked = |text| mask_statement(text, QuoteStyle::Mysql);
        assert_eq!(masked("select \"a\\\"b\", `t 1` from x # secret"), "select ?, `t 1` from x");
        assert_eq!(masked("set password = \"secret\""), "set password = ?");
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = standard(&format!("select {}", "column_name, ".repeat(100)));
        assert_eq!(text.chars().count(), MAX_STATEMENT_CHARS + 1);
        assert!(text.ends_with('…'));
    }
}
