//! Block `dm_mech_g1`: rotation, arm, head switches.

use super::fields::FieldReader;
use super::parameter_syntax::{SourcePosition, SpecBlock, resolve_path};
use super::{DiskspecsError, TextLoader};
use crate::Ns;
use crate::drive::{PositioningModel, RootAndLine, SeekCurve};

/// Longest accepted time, ms.
pub(super) const MAX_TIME_MS: f64 = 100_000.0;
/// Largest number of points of a seek curve.
const MAX_SEEK_POINTS: usize = 1_000_000;

const KNOWN_KEYS: &[&str] = &[
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
    pub seek: SeekCurve,
    pub head_switch: Ns,
    pub write_settle: i64,
}

/// Converts milliseconds to nanoseconds.
pub(super) fn ms_to_ns(ms: f64) -> Ns {
    (ms * 1e6).round().max(0.0) as Ns
}

/// Reads a mechanics block.
pub(super) fn read_mechanics(block: &SpecBlock, load: &dyn TextLoader) -> Result<Mechanics, DiskspecsError> {
    if block.kind != "dm_mech_g1" {
        return Err(block
            .position
            .error(format!("mechanics `{}` are not supported; expected `dm_mech_g1`", block.kind)));
    }
    let mut fields = FieldReader::new(block)?;
    let ms = |fields: &mut FieldReader<'_>, key: &str| fields.read_number(key, 0.0, MAX_TIME_MS);
    let constant = ms(&mut fields, "Constant access time")?;
    let access_position = fields.require_entry("Access time type")?.position.clone();
    let access = match fields.read_word("Access time type")?.unwrap_or_default() {
        "trackSwitchPlusRotation" => PositioningModel::Exact,
        "averageRotation" => PositioningModel::HalfTurn,
        "constant" => {
            let time = constant.ok_or_else(|| access_position.error("`constant` needs `Constant access time`"))?;
            PositioningModel::Constant(ms_to_ns(time))
        }
        other => {
            let expected = "trackSwitchPlusRotation, averageRotation or constant";
            return Err(access_position.error(format!("access time type is `{other}`; expected {expected}")));
        }
    };
    let seek = read_seek(&mut fields, load)?;
    let head_switch = ms_to_ns(fields.require_number("Head switch time", 0.0, MAX_TIME_MS)?);
    // may be negative: the other times are those of reads, and a write may settle sooner
    let settle = fields.read_number("Add. write settling delay", -MAX_TIME_MS, MAX_TIME_MS)?.unwrap_or(0.0);
    let write_settle = (settle * 1e6).round() as i64;
    let rpm = fields.require_number("Rotation speed (in rpms)", 1.0, 1e6)?;
    if fields.read_number("Percent error in rpms", 0.0, 100.0)?.is_some_and(|error| error != 0.0) {
        let reason = "is not modeled: a rotation speed that differs from drive to drive";
        return Err(fields.error_at_key("Percent error in rpms", reason));
    }
    fields.reject_unknown(KNOWN_KEYS)?;
    Ok(Mechanics { rpm, access, seek, head_switch, write_settle })
}

fn read_seek(fields: &mut FieldReader<'_>, load: &dyn TextLoader) -> Result<SeekCurve, DiskspecsError> {
    let position = fields.require_entry("Seek type")?.position.clone();
    let kind = fields.read_word("Seek type")?.unwrap_or_default();
    let [one, average, full, constant] =
        ["Single cylinder seek time", "Average seek time", "Full strobe seek time", "Constant seek time"]
            .map(|key| fields.read_number(key, 0.0, MAX_TIME_MS));
    let (one, average, full, constant) = (one?, average?, full?, constant?);
    let first = fields.read_numbers("First ten seek times", 0.0, MAX_TIME_MS)?;
    let values = fields.read_numbers("HPL seek equation values", -1.0, 1e9)?;
    let file = fields.find_entry("Full seek curve").map(|entry| entry.position.clone());
    let name = fields.read_word("Full seek curve")?;
    let need = |value: Option<f64>, key: &str| {
        value.ok_or_else(|| position.error(format!("seek type `{kind}` needs `{key}`")))
    };
    match kind {
        "constant" => Ok(SeekCurve::Constant(need(constant, "Constant seek time")?)),
        "linear" | "curve" => {
            let one = need(one, "Single cylinder seek time")?;
            let average = need(average, "Average seek time")?;
            let full = need(full, "Full strobe seek time")?;
            let line = SeekCurve::Line { one, average, full };
            Ok(if kind == "linear" { line } else { SeekCurve::Curve { one, average, full } })
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
            Ok(SeekCurve::RootAndLine(RootAndLine {
                long_from_cylinders: from,
                short_ms: short,
                root_ms: root,
                long_ms: long,
                slope_ms: slope,
                measured_ms: first,
            }))
        }
        "extracted" => match (name, file) {
            (Some(name), Some(position)) => {
                let path = resolve_path(&position.file, name);
                let text = load.load(&path).map_err(|e| position.error(format!("`Full seek curve = {name}`: {e}")))?;
                parse_seek_curve(&path, &text).map(SeekCurve::Table)
            }
            _ => Err(position.error("seek type `extracted` needs `Full seek curve`, the name of a file")),
        },
        other => {
            let expected = "constant, linear, curve, hpl, hplplus10 or extracted";
            Err(position.error(format!("seek type is `{other}`; expected {expected}")))
        }
    }
}

/// Parses a measured curve: `Seek distances measured: N`, then N lines of `cylinders, milliseconds`.
fn parse_seek_curve(path: &str, text: &str) -> Result<Vec<(u32, f64)>, DiskspecsError> {
    let position_of_line = |line: usize| SourcePosition { file: path.into(), line };
    let mut points: Vec<(u32, f64)> = Vec::new();
    let mut announced = None;
    for (position, line) in text.lines().enumerate().map(|(index, line)| (position_of_line(index + 1), line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if announced.is_none() {
            let count = line.strip_prefix("Seek distances measured:").and_then(|n| n.trim().parse::<usize>().ok());
            announced =
                Some(count.ok_or_else(|| position.error("the first line must be `Seek distances measured: NUMBER`"))?);
            continue;
        }
        let parts = line.split([',', ' ', '\t']).filter(|part| !part.is_empty()).collect::<Vec<_>>();
        let point = match parts[..] {
            // the third number is a deviation
            [distance, time] | [distance, time, _] => distance.parse().ok().zip(time.parse::<f64>().ok()),
            _ => None,
        };
        let point = point.filter(|(d, t)| *d > 0_u32 && (0.0..=MAX_TIME_MS).contains(t));
        let before = points.last().map_or(0, |last| last.0);
        // behind the announced number, points count as well, as in DiskSim, and other lines do not
        if announced.is_some_and(|announced| points.len() >= announced) && point.is_none_or(|(d, _)| d <= before) {
            continue;
        }
        let (distance, time) =
            point.ok_or_else(|| position.error(format!("expected `CYLINDERS, MILLISECONDS`, found `{line}`")))?;
        if distance <= before {
            return Err(position.error(format!("{distance} cylinders after {before}; distances must grow")));
        }
        if points.len() >= MAX_SEEK_POINTS {
            return Err(position.error(format!("more than {MAX_SEEK_POINTS} points")));
        }
        points.push((distance, time));
    }
    match announced {
        Some(count) if count <= points.len() && !points.is_empty() => Ok(points),
        Some(count) => {
            Err(position_of_line(1).error(format!("it announces {count} distances, but {} follow", points.len())))
        }
        None => {
            Err(position_of_line(1).error("the file is empty; expected `Seek distances measured: NUMBER` and points"))
        }
    }
}
