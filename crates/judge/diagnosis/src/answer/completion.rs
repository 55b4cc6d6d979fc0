//! What is added to a verdict when all else of it is known: remedies against what a trend warns of, and what the caller
//! named in vain.

use diskwright_base::counter_ids::memory;

use crate::answer::verdict::Verdict;
use crate::rules::advice::builtin_advice;
use crate::rules::packs::builtin_packs;
use crate::rules::{Advice, Rule};
use crate::run::Observation;
use crate::trends::{KERNEL_KIND, Trend};

/// Remedies against a program that takes ever more memory.
const PROGRAM_LEAK: &[&str] = &["memory.report-leak", "memory.enlarge-swap"];
/// The same against memory of the kernel.
const KERNEL_LEAK: &[&str] = &["memory.kernel-leak", "memory.enlarge-swap"];
/// The same where nothing shows what grows.
const UNKNOWN_LEAK: &[&str] = &["memory.find-leak", "memory.report-leak"];

/// Completes the verdict of a pack.
pub(crate) fn complete_verdict(observed: &Observation, pack: usize, mut verdict: Verdict) -> Verdict {
    verdict.certainty_limits.extend(unused_role_text(observed, pack));
    // what is blamed now comes before what will be short
    if verdict.bottlenecks.is_empty() {
        let known = |advice: &Advice| verdict.advice.iter().any(|other| other.id == advice.id);
        let mut new = leak_remedies(observed, &verdict.trends);
        new.retain(|advice| !known(advice));
        verdict.advice.splice(0..0, new);
    }
    verdict
}

/// Remedies against memory that runs out, if it does.
fn leak_remedies(observed: &Observation, trends: &[Trend]) -> Vec<Advice> {
    let is_available = |id: &str| [memory::AVAILABLE_BYTES, memory::AVAILABLE_FRACTION].contains(&id);
    let is_leak = |t: &&Trend| t.matters && t.crosses.is_some() && is_available(&t.counter);
    let Some(leak) = trends.iter().find(is_leak) else { return Vec::new() };
    let ids = match &leak.growing {
        Some(growing) if growing.culprit.kind == KERNEL_KIND => KERNEL_LEAK,
        Some(_) => PROGRAM_LEAK,
        None => UNKNOWN_LEAK,
    };
    let advice = ids.iter().filter_map(|id| builtin_advice().iter().find(|advice| advice.id == **id));
    advice.filter_map(|advice| advice.for_system(observed.notes.source)).collect()
}

/// Sentence on a role that no rule of the pack depends on, with the packs that have such rules.
fn unused_role_text(observed: &Observation, pack: usize) -> Option<String> {
    let role = observed.role.as_deref()?;
    let knows = |rules: &[Rule]| rules.iter().any(|rule| rule.names_role(role));
    let own = &observed.packs[pack];
    if knows(&own.rules) {
        return None;
    }
    let others: Vec<String> = builtin_packs().ok()?.into_iter().filter(|p| knows(&p.rules)).map(|p| p.id).collect();
    let packs = if others.is_empty() { String::new() } else { format!(" (--pack {})", others.join(", ")) };
    Some(format!("no rule of the pack {} depends on the role {role}; other packs have such rules{packs}", own.id))
}
