//! Which counters are shown where. The data are TOML of one form, ours and a user's.

use diskwright_base::toml_reader::{ProblemSource, Problems, did_you_mean, read};
use diskwright_base::{Catalogue, Problem};
use serde::Deserialize;

/// What the view shows, and in which order.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panels {
    /// The table of devices.
    pub devices: DevicePanel,
    /// Lines of values of the whole machine.
    pub strips: Vec<StripPanel>,
    /// Quantities that the time line can show.
    pub timeline: Vec<PanelCounter>,
}

/// The table of devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePanel {
    /// Whose instances the rows are.
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
    /// What they are about.
    pub title: String,
    /// The values.
    pub values: Vec<PanelCounter>,
}

/// A counter and what it is called on the screen.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PanelCounter {
    /// Id in the catalogue.
    pub counter: String,
    /// A word or two.
    pub title: String,
}

impl Panels {
    /// Those that come with the program.
    ///
    /// # Panics
    /// Where our own file is wrong, which a test excludes.
    pub fn builtin() -> Panels {
        Panels::load("panels.toml", include_str!("../data/panels.toml")).expect("our own panels are right")
    }

    /// Reads a file of panels; `file` is its name in what is told.
    ///
    /// # Errors
    /// Everything that is wrong with it, unknown counters with the nearest names.
    pub fn load(file: &str, text: &str) -> Result<Panels, Problems> {
        let panels: Panels = read(file, text)?;
        let unknown: Vec<Problem> = panels.counters().filter_map(|counter| unknown(file, text, counter)).collect();
        if unknown.is_empty() { Ok(panels) } else { Err(Problems(unknown)) }
    }

    fn counters(&self) -> impl Iterator<Item = &str> {
        let columns = self.devices.columns.iter().chain(&self.timeline);
        let strips = self.strips.iter().flat_map(|strip| &strip.values);
        columns.chain(strips).map(|shown| shown.counter.as_str()).chain([self.devices.history.as_str()])
    }
}

/// A counter that the catalogue does not know, with the line where it stands.
fn unknown(file: &str, text: &str, counter: &str) -> Option<Problem> {
    let catalogue = Catalogue::builtin();
    if catalogue.get(counter).is_some() {
        return None;
    }
    let near = did_you_mean(counter, catalogue.counters().iter().map(|known| known.id.as_str()));
    let start = text.find(counter).unwrap_or(0);
    Some(ProblemSource { file, text }.problem(start, "", format!("unknown counter `{counter}`{near}")))
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
