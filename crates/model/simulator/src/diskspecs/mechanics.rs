//! Block `dm_mech_g1`: rotation, arm, head switches.

use super::fields::DiskspecsFields;
use super::syntax::{SourcePosition, SpecBlock, beside};
use super::{DiskspecsError, TextLoader};
use crate::Ns;
use crate::drive::{PositioningModel, RootAndLine, Seek};

/// Longest accepted time, ms.
pub(super) const MOST_MS: f64 = 100_000.0;
/// Largest number of points of a seek curve.
const MOST_POINTS: usize = 1_000_000;

const KNOWN: &[&str] = &[
    "Access time type",
    "Constant access time",
    "Seek type",
    "Average seek time",
    "Constant seek time",
    "Single cylinder seek time",
    "Full strobe seek time",
    "Full seek curve",
    "Add. write settling delay",
    "Head switch time",
    "Rotation speed (in rpms)",
    "Percent error in rpms",
    "First ten seek times",
    "HPL seek equation values",
];

/// Content of a mechanics block.
pub(super) struct Mechanics {
    pub rpm: f64,
    pub access: PositioningModel,
    pub seek: Seek,
    pub head_switch: Ns,
    pub write_settle: i64,
}

/// Converts milliseconds to nanoseconds.
pub(super) fn ns(ms: f64) -> Ns {
    (ms * 1e6).round().max(0.0) as Ns
}

/// Reads a mechanics block.
pub(super) fn read(block: &SpecBlock, load: &dyn TextLoader) -> Result<Mechanics, DiskspecsError> {
    if block.kind != "dm_mech_g1" {
        return Err(block
            .position
            .error(format!("mechanics `{}` are not supported; expected `dm_mech_g1`", block.kind)));
    }
    let mut fields = DiskspecsFields::new(block)?;
    let ms = |fields: &mut DiskspecsFields<'_>, key: &str| fields.number(key, 0.0, MOST_MS);
    let constant = ms(&mut fields, "Constant access time")?;
    let access_position = fields.need("Access time type")?.position.clone();
    let access = match fields.word("Access time type")?.unwrap_or_default() {
        "trackSwitchPlusRotation" => PositioningModel::Exact,
        "averageRotation" => PositioningModel::HalfTurn,
        "constant" => {
            let time = constant.ok_or_else(|| access_position.error("`constant` needs `Constant access time`"))?;
            PositioningModel::Constant(ns(time))
        }
        other => {
            let right = "trackSwitchPlusRotation, averageRotation or constant";
            return Err(access_position.error(format!("access time type is `{other}`; expected {right}")));
        }
    };
    let seek = seek(&mut fields, load)?;
    let head_switch = ns(fields.need_number("Head switch time", 0.0, MOST_MS)?);
    // may be negative: the other times are of reads, and a write may settle sooner
    let settle = fields.number("Add. write settling delay", -MOST_MS, MOST_MS)?.unwrap_or(0.0);
    let write_settle = (settle * 1e6).round() as i64;
    let rpm = fields.need_number("Rotation speed (in rpms)", 1.0, 1e6)?;
    if fields.number("Percent error in rpms", 0.0, 100.0)?.is_some_and(|error| error != 0.0) {
        let what = "is not modeled: a rotation speed that differs from drive to drive";
        return Err(fields.wrong("Percent error in rpms", what));
    }
    fields.finish(KNOWN)?;
    Ok(Mechanics { rpm, access, seek, head_switch, write_settle })
}

fn seek(fields: &mut DiskspecsFields<'_>, load: &dyn TextLoader) -> Result<Seek, DiskspecsError> {
    let position = fields.need("Seek type")?.position.clone();
    let kind = fields.word("Seek type")?.unwrap_or_default();
    let [one, average, full, constant] =
        ["Single cylinder seek time", "Average seek time", "Full strobe seek time", "Constant seek time"]
            .map(|key| fields.number(key, 0.0, MOST_MS));
    let (one, average, full, constant) = (one?, average?, full?, constant?);
    let first = fields.numbers("First ten seek times", 0.0, MOST_MS)?;
    let values = fields.numbers("HPL seek equation values", -1.0, 1e9)?;
    let file = fields.entry("Full seek curve").map(|entry| entry.position.clone());
    let name = fields.word("Full seek curve")?;
    let need = |value: Option<f64>, key: &str| {
        value.ok_or_else(|| position.error(format!("seek type `{kind}` needs `{key}`")))
    };
    match kind {
        "constant" => Ok(Seek::Constant(need(constant, "Constant seek time")?)),
        "linear" | "curve" => {
            let one = need(one, "Single cylinder seek time")?;
            let average = need(average, "Average seek time")?;
            let full = need(full, "Full strobe seek time")?;
            let line = Seek::Line { one, average, full };
            Ok(if kind == "linear" { line } else { Seek::Curve { one, average, full } })
        }
        "hpl" | "hplplus10" => {
            let six: Option<[f64; 6]> = values.try_into().ok();
            let [from, short, root, long, slope, single] =
                six.ok_or_else(|| position.error(format!("seek type `{kind}` needs six `HPL seek equation values`")))?;
            let first = match kind {
                "hpl" if single >= 0.0 => vec![single],
                "hpl" => Vec::new(),
                _ if first.len() == 10 => first,
                _ => return Err(position.error("seek type `hplplus10` needs ten `First ten seek times`")),
            };
            Ok(Seek::RootAndLine(RootAndLine { from, short, root, long, slope, first }))
        }
        "extracted" => match (name, file) {
            (Some(name), Some(position)) => {
                let path = beside(&position.file, name);
                let text = load.load(&path).map_err(|e| position.error(format!("`Full seek curve = {name}`: {e}")))?;
                curve(&path, &text).map(Seek::Table)
            }
            _ => Err(position.error("seek type `extracted` needs `Full seek curve`, the name of a file")),
        },
        other => {
            let right = "constant, linear, curve, hpl, hplplus10 or extracted";
            Err(position.error(format!("seek type is `{other}`; expected {right}")))
        }
    }
}

/// Parses a measured curve: `Seek distances measured: N`, then N lines of `cylinders, milliseconds`.
fn curve(path: &str, text: &str) -> Result<Vec<(u32, f64)>, DiskspecsError> {
    let place = |line: usize| SourcePosition { file: path.into(), line };
    let mut points: Vec<(u32, f64)> = Vec::new();
    let mut announced = None;
    for (index, line) in text.lines().enumerate().map(|(index, line)| (place(index + 1), line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if announced.is_none() {
            let count = line.strip_prefix("Seek distances measured:").and_then(|n| n.trim().parse::<usize>().ok());
            announced =
                Some(count.ok_or_else(|| index.error("the first line must be `Seek distances measured: NUMBER`"))?);
            continue;
        }
        let parts = line.split([',', ' ', '\t']).filter(|part| !part.is_empty()).collect::<Vec<_>>();
        let point = match parts[..] {
            [distance, time] => distance.parse().ok().zip(time.parse::<f64>().ok()),
            _ => None,
        };
        let (distance, time) = point
            .filter(|(d, t)| *d > 0_u32 && (0.0..=MOST_MS).contains(t))
            .ok_or_else(|| index.error(format!("expected `CYLINDERS, MILLISECONDS`, found `{line}`")))?;
        if announced.is_some_and(|announced| points.len() >= announced) {
            // lines after the announced number of points are ignored
            break;
        }
        if points.last().is_some_and(|last| last.0 >= distance) {
            let before = points[points.len() - 1].0;
            return Err(index.error(format!("{distance} cylinders after {before}; distances must grow")));
        }
        if points.len() >= MOST_POINTS {
            return Err(index.error(format!("more than {MOST_POINTS} points")));
        }
        points.push((distance, time));
    }
    match announced {
        Some(count) if count == points.len() && count > 0 => Ok(points),
        Some(count) => Err(place(1).error(format!("it announces {count} distances, but {} follow", points.len()))),
        None => Err(place(1).error("the file is empty; expected `Seek distances measured: NUMBER` and points")),
    }
}
