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

    /// Returns the means of the numbers that all of them have.
    pub fn mean_of_runs(all: &[Numbers]) -> Numbers {
        let mut means = Numbers::default();
        for (path, _) in all.iter().take(1).flat_map(Numbers::iter) {
            let values: Option<Vec<f64>> = all.iter().map(|numbers| numbers.values.get(path).copied()).collect();
            if let Some(values) = values {
                means.insert(path, values.iter().sum::<f64>() / values.len() as f64);
            }
        }
        means
    }

    /// Returns the number at a path.
    ///
    /// # Errors
    /// An error lists the paths of the same kind.
    pub fn get(&self, path: &str) -> Result<f64, String> {
        if let Some(value) = self.values.get(path) {
            return Ok(*value);
        }
        let kind = path.split('.').next().unwrap_or_default();
        let near: Vec<&str> =
            self.values.keys().map(String::as_str).filter(|k| k.split('.').next() == Some(kind)).collect();
        let near = if near.is_empty() { self.values.keys().map(String::as_str).collect() } else { near };
        Err(format!("a simulation has no number `{path}`; it has {}", near.join(", ")))
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
