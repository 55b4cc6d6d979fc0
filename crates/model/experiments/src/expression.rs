//! Expressions that are compared with published values: arithmetic on simulation results.
//!
//! ```text
//! two:workload.bytes_per_s / one:workload.bytes_per_s - 1
//! ```
//!
//! `run:path` is a number of a run; numbers, `+ - * /`, brackets, and
//! `min max mean sum` of any number of arguments. `plateau(0.05, 2, a:x, 4, b:x)`
//! is the first of the arguments 2, 4 whose value is within 5 % of the largest.

use std::fmt;

use serde::Deserialize;

/// Largest number of nested brackets.
const DEEPEST: u32 = 32;
/// Largest length of an expression, bytes: nested terms use stack space.
const LONGEST: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
enum ExpressionNode {
    Number(f64),
    Name(String, String),
    Binary(char, Box<ExpressionNode>, Box<ExpressionNode>),
    Call(Function, Vec<ExpressionNode>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Min,
    Max,
    Mean,
    Sum,
    Plateau,
}

/// A parsed expression.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Expression {
    text: String,
    node: ExpressionNode,
}

/// A parsed comparison: `a < b`, with `<`, `<=`, `>` or `>=`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Test {
    text: String,
    left: ExpressionNode,
    how: String,
    right: ExpressionNode,
}

/// Looks up a number by run and path.
pub type Lookup<'a> = &'a dyn Fn(&str, &str) -> Result<f64, String>;

impl TryFrom<String> for Expression {
    type Error = String;

    fn try_from(text: String) -> Result<Expression, String> {
        let mut reader = ExpressionReader::new(&text)?;
        let node = reader.sum()?;
        reader.end()?;
        Ok(Expression { node, text })
    }
}

impl TryFrom<String> for Test {
    type Error = String;

    fn try_from(text: String) -> Result<Test, String> {
        let mut reader = ExpressionReader::new(&text)?;
        let left = reader.sum()?;
        let how = ["<=", ">=", "<", ">"].into_iter().find(|sign| reader.takes(sign));
        let how = how.ok_or_else(|| reader.wrong("one of < <= > >="))?.to_owned();
        let right = reader.sum()?;
        reader.end()?;
        Ok(Test { left, how, right, text })
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expression {
    /// Returns its value.
    ///
    /// # Errors
    /// Returns the lookup's error.
    pub fn value(&self, lookup: Lookup) -> Result<f64, String> {
        self.node.value(lookup)
    }

    /// Lists the names in it: run and path.
    pub fn names(&self) -> Vec<(&str, &str)> {
        let mut names = Vec::new();
        self.node.names(&mut names);
        names
    }
}

impl Test {
    /// Evaluates the comparison.
    ///
    /// # Errors
    /// Returns the lookup's error.
    pub fn holds(&self, lookup: Lookup) -> Result<bool, String> {
        let (left, right) = (self.left.value(lookup)?, self.right.value(lookup)?);
        Ok(match self.how.as_str() {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        })
    }

    /// Lists the names in it: run and path.
    pub fn names(&self) -> Vec<(&str, &str)> {
        let mut names = Vec::new();
        self.left.names(&mut names);
        self.right.names(&mut names);
        names
    }
}

impl ExpressionNode {
    fn names<'a>(&'a self, names: &mut Vec<(&'a str, &'a str)>) {
        match self {
            ExpressionNode::Number(_) => {}
            ExpressionNode::Name(run, path) => names.push((run, path)),
            ExpressionNode::Binary(_, left, right) => {
                left.names(names);
                right.names(names);
            }
            ExpressionNode::Call(_, arguments) => arguments.iter().for_each(|a| a.names(names)),
        }
    }

    fn value(&self, lookup: Lookup) -> Result<f64, String> {
        Ok(match self {
            ExpressionNode::Number(value) => *value,
            ExpressionNode::Name(run, path) => lookup(run, path)?,
            ExpressionNode::Binary(sign, left, right) => {
                let (left, right) = (left.value(lookup)?, right.value(lookup)?);
                match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
            ExpressionNode::Call(function, arguments) => {
                let values: Vec<f64> = arguments.iter().map(|a| a.value(lookup)).collect::<Result<_, _>>()?;
                function.value(&values)?
            }
        })
    }
}

impl Function {
    fn value(self, values: &[f64]) -> Result<f64, String> {
        let sum: f64 = values.iter().sum();
        Ok(match self {
            Function::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Function::Mean => sum / values.len() as f64,
            Function::Sum => sum,
            Function::Plateau => {
                let (share, pairs) = values.split_first().ok_or("plateau needs a share and pairs")?;
                let (pairs, rest) = pairs.as_chunks::<2>();
                let max = pairs.iter().map(|pair| pair[1]).fold(f64::NEG_INFINITY, f64::max);
                let first = pairs.iter().find(|pair| pair[1] >= max * (1.0 - share));
                first.filter(|_| rest.is_empty()).ok_or("plateau needs a share and pairs")?[0]
            }
        })
    }
}

/// Parses a text from left to right.
struct ExpressionReader<'a> {
    text: &'a str,
    position: usize,
    depth: u32,
}

impl<'a> ExpressionReader<'a> {
    fn new(text: &'a str) -> Result<ExpressionReader<'a>, String> {
        match text.len() {
            0..=LONGEST => Ok(ExpressionReader { text, position: 0, depth: 0 }),
            more => Err(format!("an expression of {more} bytes; the limit is {LONGEST}")),
        }
    }

    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.position..];
        let trimmed = rest.trim_start();
        self.position += rest.len() - trimmed.len();
        trimmed
    }

    fn takes(&mut self, word: &str) -> bool {
        let is = self.rest().starts_with(word);
        self.position += if is { word.len() } else { 0 };
        is
    }

    fn wrong(&mut self, wanted: &str) -> String {
        let found = self.rest().chars().take(12).collect::<String>();
        format!("`{}`: expected {wanted} at `{found}`", self.text)
    }

    fn end(&mut self) -> Result<(), String> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.wrong("the end")) }
    }

    fn word(&mut self, within: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !within(c)).unwrap_or(rest.len());
        self.position += end;
        &rest[..end]
    }

    fn sum(&mut self) -> Result<ExpressionNode, String> {
        let mut left = self.product()?;
        while let Some(sign) = ['+', '-'].into_iter().find(|s| self.takes(s.encode_utf8(&mut [0; 4]))) {
            left = ExpressionNode::Binary(sign, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<ExpressionNode, String> {
        let mut left = self.part()?;
        while let Some(sign) = ['*', '/'].into_iter().find(|s| self.takes(s.encode_utf8(&mut [0; 4]))) {
            left = ExpressionNode::Binary(sign, Box::new(left), Box::new(self.part()?));
        }
        Ok(left)
    }

    fn part(&mut self) -> Result<ExpressionNode, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("`{}`: more than {DEEPEST} nested brackets", self.text));
        }
        let node = match self.rest().chars().next() {
            Some('(') => {
                self.position += 1;
                let node = self.sum()?;
                if !self.takes(")") {
                    return Err(self.wrong("`)`"));
                }
                node
            }
            Some('-') => {
                self.position += 1;
                ExpressionNode::Binary('-', Box::new(ExpressionNode::Number(0.0)), Box::new(self.part()?))
            }
            Some(c) if c.is_ascii_digit() => {
                let word = self.word(|c| c.is_ascii_digit() || c == '.');
                ExpressionNode::Number(word.parse().map_err(|_| format!("`{word}` is not a number"))?)
            }
            Some(c) if c.is_ascii_alphabetic() => self.named()?,
            _ => return Err(self.wrong("a number, a name or a bracket")),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn named(&mut self) -> Result<ExpressionNode, String> {
        let word = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if self.takes(":") {
            let path = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            return match path {
                "" => Err(self.wrong("a path")),
                path => Ok(ExpressionNode::Name(word.to_owned(), path.to_owned())),
            };
        }
        let function = match word {
            "min" => Function::Min,
            "max" => Function::Max,
            "mean" => Function::Mean,
            "sum" => Function::Sum,
            "plateau" => Function::Plateau,
            _ => return Err(format!("`{}`: `{word}` is neither a run (write {word}:path) nor a function", self.text)),
        };
        if !self.takes("(") {
            return Err(self.wrong("`(`"));
        }
        let mut arguments = vec![self.sum()?];
        while self.takes(",") {
            arguments.push(self.sum()?);
        }
        if self.takes(")") { Ok(ExpressionNode::Call(function, arguments)) } else { Err(self.wrong("`,` or `)`")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(run: &str, path: &str) -> Result<f64, String> {
        match (run, path) {
            ("one", "rate") => Ok(4.0),
            ("two", "drive.0.busy") => Ok(6.0),
            _ => Err(format!("no {run}:{path}")),
        }
    }

    fn value(text: &str) -> Result<f64, String> {
        Expression::try_from(text.to_owned())?.value(&lookup)
    }

    #[test]
    fn arithmetic() {
        let cases = [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3 - -1", 10.0),
            ("two:drive.0.busy / one:rate - 1", 0.5),
            ("8 / 2 / 2", 2.0),
            ("10 - 2 - 3", 5.0),
            ("mean(1, 2, 6) + max(1, one:rate) + min(2, 1) + sum(1, 1)", 10.0),
            ("plateau(0.1, 2, 50, 4, 95, 8, 100, 16, 99)", 4.0),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn wrong_text_is_told() {
        let (deep, long) = ("(".repeat(1000), "1+".repeat(3000));
        let cases = [
            ("1 +", "at ``"),
            ("1 2", "expected the end at `2`"),
            ("rate", "neither a run (write rate:path) nor a function"),
            ("max(1", "`,` or `)`"),
            ("1.2.3", "not a number"),
            ("two:other", "no two:other"),
            ("plateau(0.1, 2)", "pairs"),
            ("é", "at `é`"),
            (deep.as_str(), "more than 32 nested brackets"),
            (long.as_str(), "the limit is 4096"),
        ];
        for (text, expected) in cases {
            let error = value(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn comparisons() {
        let holds = |text: &str| Test::try_from(text.to_owned()).and_then(|test| test.holds(&lookup));
        assert_eq!(holds("one:rate < two:drive.0.busy"), Ok(true));
        assert_eq!(holds("one:rate >= 4"), Ok(true));
        assert_eq!(holds("one:rate > 4"), Ok(false));
        assert!(holds("one:rate").unwrap_err().contains("one of < <= > >="));
    }

    #[test]
    fn names_are_told() {
        let expression = Expression::try_from("a:x.y / (b:z + 1)".to_owned()).unwrap();
        assert_eq!(expression.names(), [("a", "x.y"), ("b", "z")]);
    }
}
