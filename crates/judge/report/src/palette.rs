//! Line styles, one per device name across all charts of a page, and shortened
//! names that fit at a line's end and still differ.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::chart_model::Chart;
use crate::svg::MAX_LINES;
use crate::text;

/// Number of line styles in the style sheet: six colours, solid and dotted.
pub(crate) const STYLE_COUNT: usize = 12;

/// Columns by which a name grows one by one until it differs from others.
const MAX_SINGLE_STEPS: usize = 100;

/// The style of each name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Palette {
    styles: BTreeMap<String, usize>,
}

impl Palette {
    /// Assigns styles to all names in the charts of a page and to the names in `beside`.
    /// Names get different styles while there are enough of them; after that, names in
    /// the same chart still differ if possible.
    pub fn from_charts<'a>(charts: &'a [Chart], beside: impl Iterator<Item = &'a str>) -> Palette {
        let drawn = |chart: &'a Chart| chart.lines.iter().take(MAX_LINES).map(|l| l.instance.as_str());
        let mut names: Vec<&str> = charts.iter().flat_map(drawn).chain(beside).filter(|n| is_device(n)).collect();
        names.sort_unstable();
        names.dedup();
        let mut charts_of: HashMap<&str, Vec<usize>> = HashMap::new();
        for (chart, name) in charts.iter().enumerate().flat_map(|(index, chart)| drawn(chart).map(move |n| (index, n)))
        {
            charts_of.entry(name).or_default().push(chart);
        }
        let mut styles: BTreeMap<String, usize> = BTreeMap::new();
        let mut used = [false; STYLE_COUNT];
        for (index, name) in names.iter().enumerate() {
            let chart_mates = || charts_of.get(name).into_iter().flatten().flat_map(|chart| drawn(&charts[*chart]));
            let unused = used.iter().position(|is_used| !is_used);
            let free = unused.or_else(|| {
                let taken: HashSet<usize> = chart_mates().filter_map(|mate| styles.get(mate).copied()).collect();
                (0..STYLE_COUNT).find(|style| !taken.contains(style))
            });
            let style = free.unwrap_or(index % STYLE_COUNT);
            used[style] = true;
            styles.insert((*name).to_owned(), style);
        }
        Palette { styles }
    }

    /// Returns the styles of a chart's lines; lines that are not of a device get the first free styles.
    pub fn line_styles(&self, chart: &Chart) -> Vec<usize> {
        let known: Vec<Option<usize>> = chart.lines.iter().map(|l| self.styles.get(&l.instance).copied()).collect();
        let mut free = (0..).filter(|s| !known.contains(&Some(*s)));
        known.iter().map(|style| style.unwrap_or_else(|| free.next().unwrap_or(0)) % STYLE_COUNT).collect()
    }
}

/// Returns false for names that stand for the machine or for all instances.
fn is_device(name: &str) -> bool {
    !["", "_total", "*", "before", "after"].contains(&name)
}

/// Shortens longer names to `columns` by cutting their middle, or to more columns if
/// they would no longer differ. `mark` takes the place of the cut text.
pub(crate) fn shorten_names(names: &[&str], columns: usize, mark: &str) -> Vec<String> {
    let longest = names.iter().map(|n| text::display_width(n)).max().unwrap_or(0);
    // more of the end is kept than of the start, because device names differ mostly at their ends
    let cut_name = |name: &&str, width: usize| text::cut_middle_with(name, width, mark, (3, 5));
    let cut = |width: usize| -> Vec<String> { names.iter().map(|name| cut_name(name, width)).collect() };
    let is_distinct = |list: &[String]| {
        let is_collision = |index: usize, other: usize| list[index] == list[other] && names[index] != names[other];
        !(0..list.len()).any(|index| (0..index).any(|other| is_collision(index, other)))
    };
    // long names that differ in few letters are tried at ever larger steps
    let next = |width: &usize| Some(if *width < columns + MAX_SINGLE_STEPS { width + 1 } else { width * 2 });
    let widths = std::iter::successors(Some(columns), next).take_while(|width| *width < longest);
    widths.map(cut).find(|list| is_distinct(list)).unwrap_or_else(|| cut(longest.max(columns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_device_has_one_style_in_all_charts() {
        let charts = [
            fixture::sample_chart("physical_disk.busy", &["sdb", "sda"], 0.6),
            fixture::sample_chart("physical_disk.bytes_per_s", &["sdc", "sda", "sdb"], 0.6),
            fixture::sample_chart("processor.busy", &["_total"], 0.6),
        ];
        let palette = Palette::from_charts(&charts, ["sdd"].into_iter());
        assert_eq!(palette.line_styles(&charts[0]), [1, 0]);
        assert_eq!(palette.line_styles(&charts[1]), [2, 0, 1]);
        assert_eq!(palette.line_styles(&charts[2]), [0]);
        assert_eq!(palette.styles.get("sdd"), Some(&3));
        // more devices than styles: none is taken twice in a chart
        let names: Vec<String> = (0..30).map(|i| format!("sd{i:02}")).collect();
        let many: Vec<Chart> = (0..10)
            .map(|c| {
                let few: Vec<&str> = (0..6).map(|k| names[(c * 3 + k) % 30].as_str()).collect();
                fixture::sample_chart("physical_disk.busy", &few, 0.6)
            })
            .collect();
        let palette = Palette::from_charts(&many, std::iter::empty());
        for chart in &many {
            let mut styles = palette.line_styles(chart);
            styles.sort_unstable();
            styles.dedup();
            assert_eq!(styles.len(), 6);
        }
    }

    #[test]
    fn long_names_differ() {
        let names = ["nvme0n1-eui.0025385b21404f1a", "nvme0n1-eui.0025385b21404f1b", "sda"];
        let cut = shorten_names(&names, 14, "…");
        assert_eq!(cut[2], "sda");
        assert!(cut[0] != cut[1] && cut[0].contains('…') && text::display_width(&cut[0]) <= 14, "{cut:?}");
        let in_the_middle = ["mapper/very-long-a-name-for-all", "mapper/very-long-b-name-for-all"];
        let cut = shorten_names(&in_the_middle, 14, "…");
        assert!(cut[0] != cut[1], "{cut:?}");
        assert_eq!(shorten_names(&["x", "x"], 14, "…"), ["x", "x"]);
    }
}
