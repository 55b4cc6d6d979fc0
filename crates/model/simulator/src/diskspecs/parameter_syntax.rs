//! Syntax of DiskSim's parameter files, without the meaning of the keys: named blocks of `key = value`, lists in
//! brackets, comments from `#` to the line's end, and `source FILE` wherever a block is allowed.

use std::path::Path;
use std::rc::Rc;

use super::{DiskspecsError, TextLoader};

/// Largest total number of files included by `source`.
const MAX_FILES: usize = 64;
/// Largest depth of nested blocks and lists.
const MAX_DEPTH: usize = 32;
/// Largest total number of values in all files.
const MAX_VALUES: usize = 4_000_000;

/// Position in a file.
#[derive(Clone, Debug)]
pub(super) struct SourcePosition {
    pub file: Rc<str>,
    pub line: usize,
}

impl SourcePosition {
    /// Creates an error at this position.
    pub fn error(&self, message: impl Into<String>) -> DiskspecsError {
        DiskspecsError { file: self.file.to_string(), line: self.line, message: message.into() }
    }
}

/// `kind name { key = value, … }`.
#[derive(Clone, Debug)]
pub(super) struct SpecBlock {
    pub kind: String,
    pub name: String,
    pub position: SourcePosition,
    pub entries: Vec<SpecEntry>,
}

/// One `key = value` of a block.
#[derive(Clone, Debug)]
pub(super) struct SpecEntry {
    pub key: String,
    pub position: SourcePosition,
    pub value: SpecValue,
}

/// Value after a `=` or in a list.
#[derive(Clone, Debug)]
pub(super) enum SpecValue {
    /// A number, a word, a file's name.
    Word(String),
    Block(SpecBlock),
    List(Vec<(SourcePosition, SpecValue)>),
}

/// Content of a file at top level.
#[derive(Debug, Default)]
pub(super) struct SpecDocument {
    pub blocks: Vec<SpecBlock>,
    /// `instantiate [ names ] as block`.
    pub instances: Vec<(String, String)>,
    /// Components of `topology`, each with the component that it is attached to.
    pub attachments: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
enum SpecToken {
    Word(String),
    /// One of `{ } [ ] , =`.
    Mark(char),
}

struct Parser<'a> {
    tokens: Vec<(SpecToken, usize)>,
    next_token: usize,
    file: Rc<str>,
    load: &'a dyn TextLoader,
    /// Budget shared by all files.
    budget: &'a mut ReadBudget,
    depth: usize,
}

#[derive(Default)]
struct ReadBudget {
    files: usize,
    values: usize,
}

/// Parses a file and the files it includes.
pub(super) fn parse_document(file: &str, text: &str, load: &dyn TextLoader) -> Result<SpecDocument, DiskspecsError> {
    let mut budget = ReadBudget::default();
    let mut document = SpecDocument::default();
    parse_file(file, text, load, &mut budget, 0, &mut document)?;
    Ok(document)
}

fn parse_file(
    file: &str,
    text: &str,
    load: &dyn TextLoader,
    budget: &mut ReadBudget,
    depth: usize,
    document: &mut SpecDocument,
) -> Result<(), DiskspecsError> {
    let mut parser = Parser { tokens: tokenize(text), next_token: 0, file: file.into(), load, budget, depth };
    while parser.peek().is_some() {
        parser.parse_top_level(document)?;
    }
    Ok(())
}

/// Splits text into tokens with their lines. Words end at white space and marks; `#` comments are dropped.
fn tokenize(text: &str) -> Vec<(SpecToken, usize)> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut remaining = line;
        while let Some(start) = remaining.find(|c: char| !c.is_whitespace()) {
            remaining = &remaining[start..];
            let first = remaining.chars().next().unwrap_or(' ');
            if "{}[],=".contains(first) {
                tokens.push((SpecToken::Mark(first), index + 1));
                remaining = &remaining[1..];
                continue;
            }
            let end = remaining.find(|c: char| c.is_whitespace() || "{}[],=".contains(c)).unwrap_or(remaining.len());
            tokens.push((SpecToken::Word(remaining[..end].trim_matches('"').to_owned()), index + 1));
            remaining = &remaining[end..];
        }
    }
    tokens
}

/// Resolves a file name relative to the file that names it.
pub(super) fn resolve_path(file: &str, name: &str) -> String {
    match Path::new(file).parent() {
        Some(folder) => folder.join(name).to_string_lossy().into_owned(),
        None => name.to_owned(),
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<&SpecToken> {
        self.tokens.get(self.next_token).map(|(token, _)| token)
    }

    fn position(&self) -> SourcePosition {
        let last = self.tokens.len().saturating_sub(1);
        let line = self.tokens.get(self.next_token.min(last)).map_or(1, |(_, line)| *line);
        SourcePosition { file: Rc::clone(&self.file), line }
    }

    fn next_token_or_end(&mut self) -> Option<SpecToken> {
        let token = self.tokens.get(self.next_token).map(|(token, _)| token.clone());
        self.next_token += 1;
        token
    }

    fn is_at_mark(&self, mark: char) -> bool {
        self.peek() == Some(&SpecToken::Mark(mark))
    }

    fn skip_mark(&mut self, mark: char) -> bool {
        let is_mark = self.is_at_mark(mark);
        self.next_token += usize::from(is_mark);
        is_mark
    }

    fn expect_mark(&mut self, mark: char, after: &str) -> Result<(), DiskspecsError> {
        let position = self.position();
        match self.next_token_or_end() {
            Some(SpecToken::Mark(found)) if found == mark => Ok(()),
            Some(SpecToken::Mark(found)) => Err(position.error(format!("expected `{mark}` {after}, found `{found}`"))),
            Some(SpecToken::Word(found)) => Err(position.error(format!("expected `{mark}` {after}, found `{found}`"))),
            None => Err(position.error(format!("expected `{mark}` {after}, but the file ends"))),
        }
    }

    fn expect_word(&mut self, expected: &str) -> Result<String, DiskspecsError> {
        let position = self.position();
        match self.next_token_or_end() {
            Some(SpecToken::Word(word)) => Ok(word),
            Some(SpecToken::Mark(found)) => Err(position.error(format!("expected {expected}, found `{found}`"))),
            None => Err(position.error(format!("expected {expected}, but the file ends"))),
        }
    }

    fn parse_top_level(&mut self, document: &mut SpecDocument) -> Result<(), DiskspecsError> {
        let position = self.position();
        let word = self.expect_word("a block such as `disksim_disk NAME {`")?;
        match word.as_str() {
            "source" => {
                let name = self.expect_word("the name of a file")?;
                let (path, text) = self.load_source(&position, &name)?;
                parse_file(&path, &text, self.load, self.budget, self.depth + 1, document)
            }
            "instantiate" => self.parse_instantiate(document),
            "topology" => self.parse_topology(None, document, 0),
            _ => {
                let block = self.parse_block(word, position, 0)?;
                document.blocks.push(block);
                Ok(())
            }
        }
    }

    /// Parses `instantiate [ a, b ] as block`.
    fn parse_instantiate(&mut self, document: &mut SpecDocument) -> Result<(), DiskspecsError> {
        self.expect_mark('[', "after `instantiate`")?;
        let mut names = Vec::new();
        while !self.skip_mark(']') {
            names.push(self.expect_word("the name of a component or `]`")?);
            self.skip_mark(',');
        }
        let position = self.position();
        if self.expect_word("`as`")? != "as" {
            return Err(position.error("expected `as` and the name of a block after the names of `instantiate`"));
        }
        let block = self.expect_word("the name of a block")?;
        document.instances.extend(names.into_iter().map(|name| (name, block.clone())));
        Ok(())
    }

    /// Parses `kind name [ attached components ]`.
    fn parse_topology(
        &mut self,
        parent: Option<&str>,
        document: &mut SpecDocument,
        depth: usize,
    ) -> Result<(), DiskspecsError> {
        let position = self.position();
        if depth > MAX_DEPTH {
            return Err(position.error(format!("more than {MAX_DEPTH} nested components")));
        }
        self.expect_word("the kind of a component")?;
        let name = self.expect_word("the name of a component")?;
        if let Some(parent) = parent {
            document.attachments.push((name.clone(), parent.to_owned()));
        }
        self.expect_mark('[', "after a component")?;
        while !self.skip_mark(']') {
            self.parse_topology(Some(&name), document, depth + 1)?;
            self.skip_mark(',');
        }
        Ok(())
    }

    /// Loads the text of an included file, within the budget.
    fn load_source(&mut self, position: &SourcePosition, name: &str) -> Result<(String, String), DiskspecsError> {
        self.budget.files += 1;
        if self.budget.files > MAX_FILES || self.depth > MAX_DEPTH {
            return Err(position.error(format!("`source {name}`: too many files; do they include each other?")));
        }
        let path = resolve_path(&self.file, name);
        let text = self.load.load(&path).map_err(|e| position.error(format!("`source {name}`: {e}")))?;
        Ok((path, text))
    }

    /// Parses a block after its kind: an optional name and `{ … }`.
    fn parse_block(
        &mut self,
        kind: String,
        position: SourcePosition,
        depth: usize,
    ) -> Result<SpecBlock, DiskspecsError> {
        let name = if self.is_at_mark('{') { String::new() } else { self.expect_word("a name or `{`")? };
        self.expect_mark('{', &format!("after `{kind}`"))?;
        if depth > MAX_DEPTH {
            return Err(position.error(format!("more than {MAX_DEPTH} nested blocks")));
        }
        let mut entries = Vec::new();
        while !self.skip_mark('}') {
            if self.skip_mark(',') {
                continue;
            }
            entries.push(self.parse_entry(depth)?);
        }
        Ok(SpecBlock { kind, name, position, entries })
    }

    fn parse_entry(&mut self, depth: usize) -> Result<SpecEntry, DiskspecsError> {
        let position = self.position();
        let mut key = self.expect_word("a key or `}`")?;
        while let Some(SpecToken::Word(word)) = self.peek() {
            key.push(' ');
            key.push_str(word);
            if key.len() > 200 {
                return Err(position.error("the key has more than 200 characters; is a `=` missing?"));
            }
            self.next_token += 1;
        }
        self.expect_mark('=', &format!("after `{key}`"))?;
        let value = self.parse_value(depth)?;
        Ok(SpecEntry { key, position, value })
    }

    fn parse_value(&mut self, depth: usize) -> Result<SpecValue, DiskspecsError> {
        let position = self.position();
        self.budget.values += 1;
        if self.budget.values > MAX_VALUES {
            return Err(position.error(format!("more than {MAX_VALUES} values")));
        }
        if self.skip_mark('[') {
            return self.parse_list(depth + 1, &position);
        }
        let word = self.expect_word("a value")?;
        if word == "source" {
            let name = self.expect_word("the name of a file")?;
            let (path, text) = self.load_source(&position, &name)?;
            let mut included = SpecDocument::default();
            parse_file(&path, &text, self.load, self.budget, self.depth + 1, &mut included)?;
            let block = included.blocks.pop().filter(|_| included.blocks.is_empty());
            return block
                .map(SpecValue::Block)
                .ok_or_else(|| position.error(format!("`{path}` must hold one block to be a value")));
        }
        match self.peek() {
            Some(SpecToken::Mark('{')) => Ok(SpecValue::Block(self.parse_block(word, position, depth + 1)?)),
            // `kind name {`
            Some(SpecToken::Word(_))
                if self.tokens.get(self.next_token + 1).is_some_and(|(t, _)| *t == SpecToken::Mark('{')) =>
            {
                Ok(SpecValue::Block(self.parse_block(word, position, depth + 1)?))
            }
            _ => Ok(SpecValue::Word(word)),
        }
    }

    fn parse_list(&mut self, depth: usize, position: &SourcePosition) -> Result<SpecValue, DiskspecsError> {
        if depth > MAX_DEPTH {
            return Err(position.error(format!("more than {MAX_DEPTH} nested lists")));
        }
        let mut values = Vec::new();
        while !self.skip_mark(']') {
            if self.skip_mark(',') {
                continue;
            }
            let position = self.position();
            values.push((position, self.parse_value(depth)?));
        }
        Ok(SpecValue::List(values))
    }
}
