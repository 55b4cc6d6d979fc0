//! Silence after an alert: its cause raises no other one for a while.

use diskwright_diagnosis::Severity;

/// A cause that raises no alert until some time.
pub(crate) struct SilencedCause {
    /// Names of what it blames, or the id of the rule.
    pub causes: Vec<String>,
    pub instance: String,
    /// The rules of the ended alert.
    pub rules: Vec<usize>,
    /// Severity of the most severe of them.
    pub severity: Severity,
    pub until_ns: i64,
}

impl SilencedCause {
    /// True where the silence covers a rule: one of the ended alert, or another one that is neither more severe nor
    /// critical.
    pub fn covers_rule(&self, index: usize, severity: Severity) -> bool {
        self.rules.contains(&index) || (severity <= self.severity && severity < Severity::Critical)
    }
}
