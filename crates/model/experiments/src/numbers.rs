//! The results of a simulation, by path. Names in a path consist of letters, digits and `_`; other characters in a
//! component's name become `_`.

use std::collections::BTreeMap;

/// Numbers by path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    values: BTreeMap<String, f64>,
}

impl Numbers {
    /// Sets the number at a path.
    pub fn insert(&mut self, path: impl Into<String>, value: f64) {
        self.values.insert(path.into(), value);
    }

    /// Returns the means of the numbers that all runs have.
    pub fn mean_of_runs(runs: &[Numbers]) -> Numbers {
        let mut means = Numbers::default();
        for (path, _) in runs.iter().take(1).flat_map(Numbers::iter) {
            let values: Option<Vec<f64>> = runs.iter().map(|numbers| numbers.values.get(path).copied()).collect();
            if let Some(values) = values {
                means.insert(path, values.iter().sum::<f64>() / values.len() as f64);
            }
        }
        means
    }

    /// Returns the number at a path.
    ///
    /// # Errors
    /// The error lists the paths that begin with the same name, or all paths if there are none.
    pub fn get(&self, path: &str) -> Result<f64, String> {
        if let Some(value) = self.values.get(path) {
            return Ok(*value);
        }
        let first_name = path.split('.').next().unwrap_or_default();
        let paths: Vec<&str> =
            self.values.keys().map(String::as_str).filter(|k| k.split('.').next() == Some(first_name)).collect();
        let paths = if paths.is_empty() { self.values.keys().map(String::as_str).collect() } else { paths };
        Err(format!("a simulation has no number `{path}`; it has {}", paths.join(", ")))
    }

    /// All numbers, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(path, value)| (path.as_str(), *value))
    }
}

/// Converts a name to the form used in paths.
pub fn path_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
