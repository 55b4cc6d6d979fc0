//! Panels: the counters that the view shows, from TOML, either the built-in file or a user's.

use diskwright_base::toml_reader::{ProblemSource, Problems, did_you_mean, read};
use diskwright_base::{Catalogue, Problem};
use serde::Deserialize;

/// Counters of the view, in the order of display.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panels {
    /// The table of devices.
    pub devices: DevicePanel,
    /// Lines of values of the whole machine.
    pub strips: Vec<StripPanel>,
    /// Quantities that the timeline can show.
    pub timeline: Vec<PanelCounter>,
}

/// The table of devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePanel {
    /// Object whose instances are the rows.
    pub object: String,
    /// The counter drawn over time beside each device.
    pub history: String,
    /// Columns, the most important first: a narrow terminal shows those that fit.
    pub columns: Vec<PanelCounter>,
}

/// A line of values of the whole machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StripPanel {
    /// Subject of the values, before them on the screen.
    pub title: String,
    /// The values.
    pub values: Vec<PanelCounter>,
}

/// A counter and its title on the screen.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PanelCounter {
    /// Id in the catalogue.
    pub counter: String,
    /// A word or two.
    pub title: String,
}

impl Panels {
    /// The built-in panels.
    ///
    /// # Panics
    /// Where our own file is wrong, which a test excludes.
    pub fn builtin() -> Panels {
        Panels::load("panels.toml", include_str!("../data/panels.toml")).expect("our own panels are right")
    }

    /// Reads a file of panels; `file` is its name in error messages.
    ///
    /// # Errors
    /// Everything that is wrong with it; for an unknown counter also the nearest names.
    pub fn load(file: &str, text: &str) -> Result<Panels, Problems> {
        let panels: Panels = read(file, text)?;
        let unknown: Vec<Problem> =
            panels.counter_ids().filter_map(|counter| unknown_counter(file, text, counter)).collect();
        if unknown.is_empty() { Ok(panels) } else { Err(Problems(unknown)) }
    }

    fn counter_ids(&self) -> impl Iterator<Item = &str> {
        let columns = self.devices.columns.iter().chain(&self.timeline);
        let strips = self.strips.iter().flat_map(|strip| &strip.values);
        columns.chain(strips).map(|shown| shown.counter.as_str()).chain([self.devices.history.as_str()])
    }
}

/// Problem of a counter that is not in the catalogue, with its line; `None` for a known counter.
fn unknown_counter(file: &str, text: &str, counter: &str) -> Option<Problem> {
    let catalogue = Catalogue::builtin();
    if catalogue.get(counter).is_some() {
        return None;
    }
    let suggestion = did_you_mean(counter, catalogue.counters().iter().map(|known| known.id.as_str()));
    let start = text.find(counter).unwrap_or(0);
    Some(ProblemSource { file, text }.create_problem(start, "", format!("unknown counter `{counter}`{suggestion}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_panels_are_right() {
        let panels = Panels::builtin();
        assert!(panels.devices.columns.len() >= 8 && panels.strips.len() == 3);
    }

    #[test]
    fn an_unknown_counter_is_named_with_its_line_and_the_nearest() {
        let text = include_str!("../data/panels.toml").replace("\"physical_disk.busy\"", "\"physical_disk.busyy\"");
        let wrong = Panels::load("mine.toml", &text).expect_err("busyy is no counter");
        assert!(wrong.0[0].line > 30, "{wrong}");
        assert!(
            wrong.to_string().ends_with("unknown counter `physical_disk.busyy`; did you mean `physical_disk.busy`?")
        );
    }
}
