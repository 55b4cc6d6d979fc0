//! Parser of the common core of fio's job files: sections with options, `[global]` options for all
//! sections below them, rounds that `stonewall` separates. Source: fio's HOWTO, "Job file format".

mod job;
mod numbers;
pub mod options;

use std::collections::BTreeMap;

use super::{MAX_JOBS, Script, ScriptFile, ScriptFormat, ScriptJob, ScriptNote, number_duplicate_names, script_error};
use crate::error::ProbeError;
use options::{Treatment, canonical_name, find_option, nearest_option};

/// Longest line, bytes.
const MAX_LINE_BYTES: usize = 4096;

/// An option's value and its line.
#[derive(Clone, Debug)]
struct OptionValue {
    line: usize,
    /// `None` for an option without `=`.
    text: Option<String>,
}

/// Options by name.
type OptionValues = BTreeMap<&'static str, OptionValue>;

/// A section, including the options of global sections above it.
#[derive(Clone, Debug)]
struct FioSection {
    name: String,
    line: usize,
    values: OptionValues,
}

/// Parses a job file. `variable` looks up environment variables.
///
/// # Errors
/// The error gives file, line and option, and the expected input.
pub fn parse(file: &str, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Script, ProbeError> {
    let mut reader = FioParser { file, variable, global: OptionValues::new(), sections: Vec::new(), notes: Vec::new() };
    for (index, line) in text.lines().enumerate() {
        reader.parse_line(index + 1, line)?;
    }
    let FioParser { sections, mut notes, .. } = reader;
    let mut rounds = Rounds::default();
    // a global section at the end applies to no job
    for section in sections.iter().filter(|s| s.name != "global") {
        let jobs = job::section_jobs(file, section, &mut notes)?;
        rounds.add_section(file, section, jobs)?;
    }
    let mut rounds = rounds.jobs;
    if rounds.is_empty() {
        return Err(script_error(file, 0, "no section defines a job; add one, such as `[reads]`".into()));
    }
    rounds.iter_mut().for_each(|round| number_duplicate_names(round));
    notes.sort_by_key(|n| n.line);
    let files = vec![ScriptFile { path: file.to_owned(), text: text.to_owned() }];
    Ok(Script { format: ScriptFormat::Fio, files, rounds, notes })
}

struct FioParser<'a> {
    file: &'a str,
    variable: &'a dyn Fn(&str) -> Option<String>,
    /// Options of the finished `[global]` sections.
    global: OptionValues,
    /// Sections so far; an open `[global]` section is the last of them.
    sections: Vec<FioSection>,
    notes: Vec<ScriptNote>,
}

impl FioParser<'_> {
    fn parse_line(&mut self, index: usize, line: &str) -> Result<(), ProbeError> {
        // fio ends a line at the first of these characters, even within a value
        let line = line.split([';', '#']).next().unwrap_or_default().trim();
        let fail = |because: String| Err(script_error(self.file, index, because));
        if line.is_empty() {
            return Ok(());
        }
        if line.len() > MAX_LINE_BYTES {
            return fail(format!("the line is longer than {MAX_LINE_BYTES} bytes"));
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim).filter(|n| !n.is_empty());
            let Some(name) = name else { return fail(format!("expected `[name]`, found `{line}`")) };
            self.start_section(index, name);
            return if self.sections.len() > MAX_JOBS { fail(format!("more than {MAX_JOBS} jobs")) } else { Ok(()) };
        }
        if line.starts_with("include ") {
            return fail("`include` is not supported; copy the other file's text here".into());
        }
        if self.sections.is_empty() {
            return fail(format!("`{line}` is before the first section; put `[global]` or `[name]` above it"));
        }
        let (key, value) = line.split_once('=').map_or((line, None), |(k, v)| (k.trim(), Some(v.trim())));
        let value = value.map(|v| self.expand_variables(index, v)).transpose()?;
        self.apply_option(index, key, value)
    }

    fn start_section(&mut self, index: usize, name: &str) {
        // the options of a finished global section apply to all sections below
        if let Some(last) = self.sections.last().filter(|s| s.name == "global") {
            self.global = last.values.clone();
            self.sections.pop();
        }
        self.sections.push(FioSection { name: name.to_owned(), line: index, values: self.global.clone() });
    }

    /// Replaces `${NAME}` by environment variables.
    fn expand_variables(&self, index: usize, value: &str) -> Result<String, ProbeError> {
        let fail = |because: String| Err(script_error(self.file, index, because));
        if value.contains('`') {
            return fail(format!("`{value}`: commands are not run; write their output"));
        }
        let (mut expanded, mut rest) = (String::new(), value);
        while let Some(start) = rest.find('$') {
            expanded += &rest[..start];
            let Some(end) = rest[start..].find('}').filter(|_| rest[start..].starts_with("${")) else {
                return fail(format!("`{value}`: only `${{NAME}}`, an environment variable, is replaced"));
            };
            let name = &rest[start + 2..start + end];
            match (self.variable)(name) {
                Some(text) => expanded += &text,
                None => return fail(format!("the environment variable {name} is not set; set it or write its value")),
            }
            rest = &rest[start + end + 1..];
            if expanded.len() > MAX_LINE_BYTES {
                return fail(format!("the value is longer than {MAX_LINE_BYTES} bytes"));
            }
        }
        Ok(expanded + rest)
    }

    fn apply_option(&mut self, index: usize, key: &str, value: Option<String>) -> Result<(), ProbeError> {
        let fail = |because: String| Err(script_error(self.file, index, because));
        let Some((name, treatment)) = find_option(key) else {
            let hint = nearest_option(key).map_or(String::new(), |known| format!("; did you mean `{known}`?"));
            return fail(format!("`{key}` is not a known option{hint}"));
        };
        let text = value.as_deref().unwrap_or("1");
        let is_off = matches!(text, "0" | "none" | "false");
        match treatment {
            Treatment::Done => {}
            Treatment::Noted(why) => {
                if !is_off {
                    self.notes.push(ScriptNote {
                        file: self.file.to_owned(),
                        line: index,
                        text: format!("{key}: {why}"),
                    });
                }
                return Ok(());
            }
            Treatment::Refused(why) if !is_off => return fail(format!("`{key}` would change the workload: {why}")),
            Treatment::Only(supported, why) if !is_off && text != supported => {
                return fail(format!("`{key}={text}` would change the workload: {why}"));
            }
            Treatment::Refused(_) | Treatment::Only(..) => return Ok(()),
        }
        let Some(section) = self.sections.last_mut() else { return Ok(()) };
        // of two options for one setting, the later one counts
        for (first, second) in [("bs", "bsrange"), ("direct", "buffered"), ("rwmixread", "rwmixwrite")] {
            if name == first {
                section.values.remove(second);
            } else if name == second {
                section.values.remove(first);
            }
        }
        let name = if canonical_name(name) == "file_size" { "filesize" } else { name };
        section.values.insert(name, OptionValue { line: index, text: value });
        Ok(())
    }
}

/// Jobs, grouped by the round in which they run.
#[derive(Default)]
struct Rounds {
    /// Jobs of each round.
    jobs: Vec<Vec<ScriptJob>>,
    /// Names of the sections of each round.
    sections: Vec<Vec<String>>,
    /// First round in which the next section may run.
    first_open_round: usize,
    job_count: usize,
}

impl Rounds {
    /// Adds the jobs of a section to the round in which they run.
    fn add_section(&mut self, file: &str, section: &FioSection, jobs: Vec<ScriptJob>) -> Result<(), ProbeError> {
        self.job_count += jobs.len();
        if self.job_count > MAX_JOBS {
            return Err(script_error(
                file,
                section.line,
                format!("more than {MAX_JOBS} jobs in all, `numjobs` included"),
            ));
        }
        let stonewall = section.values.get("stonewall").is_some_and(|v| v.text.as_deref() != Some("0"));
        if stonewall {
            self.first_open_round = self.jobs.len();
        }
        let round = match section.values.get("wait_for") {
            Some(value) => self.round_after(file, value)?,
            None => self.first_open_round,
        };
        while self.jobs.len() <= round {
            self.jobs.push(Vec::new());
            self.sections.push(Vec::new());
        }
        self.jobs[round].extend(jobs);
        self.sections[round].push(section.name.clone());
        Ok(())
    }

    /// Returns the round after the section that a job waits for.
    fn round_after(&self, file: &str, value: &OptionValue) -> Result<usize, ProbeError> {
        let name = value.text.as_deref().unwrap_or_default();
        let Some(round) = self.sections.iter().position(|names| names.iter().any(|n| n == name)) else {
            return Err(script_error(file, value.line, format!("wait_for: no section above is called `{name}`")));
        };
        if self.sections[round].iter().any(|n| n != name) {
            let because = format!(
                "wait_for={name}: other jobs run beside `{name}`, and this job would wait for them too; \
                 use `stonewall` to wait for all of them"
            );
            return Err(script_error(file, value.line, because));
        }
        Ok(round + 1)
    }
}
