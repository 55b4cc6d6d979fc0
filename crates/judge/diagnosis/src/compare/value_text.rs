//! A value in both windows, as a sentence has it.

use diskwright_base::units::format_value;

/// `12 → 29 %`: a unit that both values share is written once.
pub(super) fn arrow_text(before: f64, after: f64, unit: &str) -> String {
    let [before, after] = [before, after].map(|value| format_value(value, unit));
    let unit_of = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    match unit_of(&before).filter(|unit| Some(unit) == unit_of(&after).as_ref()) {
        Some(unit) => format!("{} → {after}", before.trim_end_matches(unit.as_str()).trim_end()),
        None => format!("{before} → {after}"),
    }
}
