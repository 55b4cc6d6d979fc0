//! Expressions that are compared with published values: arithmetic on simulation results.
//!
//! ```text
//! two:workload.bytes_per_s / one:workload.bytes_per_s - 1
//! ```
//!
//! An expression consists of numbers, `run:path` (a number of a run), `+ - * /`, brackets, and
//! `min max mean sum` of any number of arguments. `plateau(0.05, 2, a:x, 4, b:x)`
//! is the first of the arguments 2, 4 whose value (`a:x`, `b:x`) is within 5 % of the largest.

use std::fmt;

use serde::Deserialize;

/// Largest number of nested brackets.
const MAX_NESTING: u32 = 32;
/// Largest length of an expression, bytes: nested terms use stack space.
const MAX_LENGTH_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
enum ExpressionNode {
    Number(f64),
    Name(String, String),
    Binary(ArithmeticOperator, Box<ExpressionNode>, Box<ExpressionNode>),
    Call(Function, Vec<ExpressionNode>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl ArithmeticOperator {
    /// Operators of sums, with their signs.
    const OF_SUMS: [(ArithmeticOperator, &str); 2] =
        [(ArithmeticOperator::Add, "+"), (ArithmeticOperator::Subtract, "-")];
    /// Operators of products, with their signs.
    const OF_PRODUCTS: [(ArithmeticOperator, &str); 2] =
        [(ArithmeticOperator::Multiply, "*"), (ArithmeticOperator::Divide, "/")];
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ComparisonOperator {
    AtMost,
    AtLeast,
    Less,
    Greater,
}

impl ComparisonOperator {
    /// All, with their signs. `<=` stands before `<`, because the first sign that matches is taken.
    const ALL: [(ComparisonOperator, &str); 4] = [
        (ComparisonOperator::AtMost, "<="),
        (ComparisonOperator::AtLeast, ">="),
        (ComparisonOperator::Less, "<"),
        (ComparisonOperator::Greater, ">"),
    ];
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
pub struct Comparison {
    text: String,
    left: ExpressionNode,
    operator: ComparisonOperator,
    right: ExpressionNode,
}

/// Looks up a number by run and path.
pub type Lookup<'a> = &'a dyn Fn(&str, &str) -> Result<f64, String>;

impl TryFrom<String> for Expression {
    type Error = String;

    fn try_from(text: String) -> Result<Expression, String> {
        let mut reader = ExpressionReader::new(&text)?;
        let node = reader.parse_sum()?;
        reader.expect_end()?;
        Ok(Expression { node, text })
    }
}

impl TryFrom<String> for Comparison {
    type Error = String;

    fn try_from(text: String) -> Result<Comparison, String> {
        let mut reader = ExpressionReader::new(&text)?;
        let left = reader.parse_sum()?;
        let operator = reader.accept_operator(ComparisonOperator::ALL);
        let operator = operator.ok_or_else(|| reader.expected_message("one of < <= > >="))?;
        let right = reader.parse_sum()?;
        reader.expect_end()?;
        Ok(Comparison { left, operator, right, text })
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Expression {
    /// Returns the value.
    ///
    /// # Errors
    /// Returns the lookup's error.
    pub fn evaluate(&self, lookup: Lookup) -> Result<f64, String> {
        self.node.evaluate(lookup)
    }

    /// Lists the names in it: run and path.
    pub fn run_paths(&self) -> Vec<(&str, &str)> {
        let mut names = Vec::new();
        self.node.collect_run_paths(&mut names);
        names
    }
}

impl Comparison {
    /// Evaluates the comparison.
    ///
    /// # Errors
    /// Returns the lookup's error.
    pub fn is_true(&self, lookup: Lookup) -> Result<bool, String> {
        let (left, right) = (self.left.evaluate(lookup)?, self.right.evaluate(lookup)?);
        Ok(match self.operator {
            ComparisonOperator::Less => left < right,
            ComparisonOperator::AtMost => left <= right,
            ComparisonOperator::Greater => left > right,
            ComparisonOperator::AtLeast => left >= right,
        })
    }

    /// Lists the names in it: run and path.
    pub fn run_paths(&self) -> Vec<(&str, &str)> {
        let mut names = Vec::new();
        self.left.collect_run_paths(&mut names);
        self.right.collect_run_paths(&mut names);
        names
    }
}

impl ExpressionNode {
    fn collect_run_paths<'a>(&'a self, names: &mut Vec<(&'a str, &'a str)>) {
        match self {
            ExpressionNode::Number(_) => {}
            ExpressionNode::Name(run, path) => names.push((run, path)),
            ExpressionNode::Binary(_, left, right) => {
                left.collect_run_paths(names);
                right.collect_run_paths(names);
            }
            ExpressionNode::Call(_, arguments) => arguments.iter().for_each(|a| a.collect_run_paths(names)),
        }
    }

    fn evaluate(&self, lookup: Lookup) -> Result<f64, String> {
        Ok(match self {
            ExpressionNode::Number(value) => *value,
            ExpressionNode::Name(run, path) => lookup(run, path)?,
            ExpressionNode::Binary(operator, left, right) => {
                let (left, right) = (left.evaluate(lookup)?, right.evaluate(lookup)?);
                match operator {
                    ArithmeticOperator::Add => left + right,
                    ArithmeticOperator::Subtract => left - right,
                    ArithmeticOperator::Multiply => left * right,
                    ArithmeticOperator::Divide => left / right,
                }
            }
            ExpressionNode::Call(function, arguments) => {
                let values: Vec<f64> = arguments.iter().map(|a| a.evaluate(lookup)).collect::<Result<_, _>>()?;
                function.evaluate(&values)?
            }
        })
    }
}

impl Function {
    fn evaluate(self, values: &[f64]) -> Result<f64, String> {
        let sum: f64 = values.iter().sum();
        Ok(match self {
            Function::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Function::Mean => sum / values.len() as f64,
            Function::Sum => sum,
            Function::Plateau => {
                let (share, pairs) = values.split_first().ok_or("plateau needs a share and pairs")?;
                let (pairs, unpaired) = pairs.as_chunks::<2>();
                let max = pairs.iter().map(|pair| pair[1]).fold(f64::NEG_INFINITY, f64::max);
                let first = pairs.iter().find(|pair| pair[1] >= max * (1.0 - share));
                first.filter(|_| unpaired.is_empty()).ok_or("plateau needs a share and pairs")?[0]
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
            0..=MAX_LENGTH_BYTES => Ok(ExpressionReader { text, position: 0, depth: 0 }),
            length => Err(format!("an expression of {length} bytes; the limit is {MAX_LENGTH_BYTES}")),
        }
    }

    fn skip_spaces(&mut self) -> &'a str {
        let remaining = &self.text[self.position..];
        let trimmed = remaining.trim_start();
        self.position += remaining.len() - trimmed.len();
        trimmed
    }

    fn accept_token(&mut self, word: &str) -> bool {
        let is_next = self.skip_spaces().starts_with(word);
        if is_next {
            self.position += word.len();
        }
        is_next
    }

    /// Accepts the first of some operators whose sign comes next.
    fn accept_operator<T, const N: usize>(&mut self, operators: [(T, &str); N]) -> Option<T> {
        operators.into_iter().find(|(_, sign)| self.accept_token(sign)).map(|(operator, _)| operator)
    }

    fn expected_message(&mut self, expected: &str) -> String {
        let found = self.skip_spaces().chars().take(12).collect::<String>();
        format!("`{}`: expected {expected} at `{found}`", self.text)
    }

    fn expect_end(&mut self) -> Result<(), String> {
        if self.skip_spaces().is_empty() { Ok(()) } else { Err(self.expected_message("the end")) }
    }

    fn read_word(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let remaining = self.skip_spaces();
        let end = remaining.find(|c: char| !is_part(c)).unwrap_or(remaining.len());
        self.position += end;
        &remaining[..end]
    }

    fn parse_sum(&mut self) -> Result<ExpressionNode, String> {
        let mut left = self.parse_product()?;
        while let Some(operator) = self.accept_operator(ArithmeticOperator::OF_SUMS) {
            left = ExpressionNode::Binary(operator, Box::new(left), Box::new(self.parse_product()?));
        }
        Ok(left)
    }

    fn parse_product(&mut self) -> Result<ExpressionNode, String> {
        let mut left = self.parse_operand()?;
        while let Some(operator) = self.accept_operator(ArithmeticOperator::OF_PRODUCTS) {
            left = ExpressionNode::Binary(operator, Box::new(left), Box::new(self.parse_operand()?));
        }
        Ok(left)
    }

    fn parse_operand(&mut self) -> Result<ExpressionNode, String> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(format!("`{}`: more than {MAX_NESTING} nested brackets", self.text));
        }
        let node = match self.skip_spaces().chars().next() {
            Some('(') => {
                self.position += 1;
                let node = self.parse_sum()?;
                if !self.accept_token(")") {
                    return Err(self.expected_message("`)`"));
                }
                node
            }
            Some('-') => {
                self.position += 1;
                let zero = Box::new(ExpressionNode::Number(0.0));
                ExpressionNode::Binary(ArithmeticOperator::Subtract, zero, Box::new(self.parse_operand()?))
            }
            Some(c) if c.is_ascii_digit() => {
                let word = self.read_word(|c| c.is_ascii_digit() || c == '.');
                ExpressionNode::Number(word.parse().map_err(|_| format!("`{word}` is not a number"))?)
            }
            Some(c) if c.is_ascii_alphabetic() => self.parse_name_or_call()?,
            _ => return Err(self.expected_message("a number, a name or a bracket")),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn parse_name_or_call(&mut self) -> Result<ExpressionNode, String> {
        let word = self.read_word(|c| c.is_ascii_alphanumeric() || c == '_');
        if self.accept_token(":") {
            let path = self.read_word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
            return match path {
                "" => Err(self.expected_message("a path")),
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
        if !self.accept_token("(") {
            return Err(self.expected_message("`(`"));
        }
        let mut arguments = vec![self.parse_sum()?];
        while self.accept_token(",") {
            arguments.push(self.parse_sum()?);
        }
        if self.accept_token(")") {
            Ok(ExpressionNode::Call(function, arguments))
        } else {
            Err(self.expected_message("`,` or `)`"))
        }
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

    fn evaluate_text(text: &str) -> Result<f64, String> {
        Expression::try_from(text.to_owned())?.evaluate(&lookup)
    }

    #[test]
    fn evaluates_arithmetic() {
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
            assert_eq!(evaluate_text(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn rejects_wrong_text() {
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
            let error = evaluate_text(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn evaluates_comparisons() {
        let holds = |text: &str| Comparison::try_from(text.to_owned()).and_then(|test| test.is_true(&lookup));
        assert_eq!(holds("one:rate < two:drive.0.busy"), Ok(true));
        assert_eq!(holds("one:rate >= 4"), Ok(true));
        assert_eq!(holds("one:rate > 4"), Ok(false));
        assert!(holds("one:rate").unwrap_err().contains("one of < <= > >="));
    }

    #[test]
    fn lists_the_run_paths() {
        let expression = Expression::try_from("a:x.y / (b:z + 1)".to_owned()).unwrap();
        assert_eq!(expression.run_paths(), [("a", "x.y"), ("b", "z")]);
    }
}
