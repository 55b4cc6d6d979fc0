//! A disk's status for people.

use serde_json::Value;

/// As text.
pub fn screen(status: &Value) -> String {
    format!("{status}\n")
}
