//! What a log with a single load proves of a change: bounds instead of a prediction.
//!
//! The operational laws need no model of arrivals (Denning and Buzen 1978; Lazowska, Zahorjan, Graham and Sevcik 1984,
//! chapters 3 and 5). A member is busy for its I/Os times the service time of each (utilization law), so it serves at
//! most one over that time. A response is at least the service time, and a system in which every service takes `k`
//! times as long responds at most `k` times as late to the same number of programs.

use serde::Serialize;

use super::array_change::{ChangedArray, change_disks, change_level};
use super::model::{LoadPoint, member_load_on, write_phases};
use super::{Change, DeviceCounters, WhatIfError, most_loaded_front, parse_change};
use crate::series::{FrontLoad, LoadSeries};

/// What to record so that a change can be predicted.
const WHAT_TO_RECORD: &str = "record at three or more different loads of the device, such as quiet and busy hours of a \
                              day; then the response itself can be predicted";

/// Least and most of a counter; `None` if the log sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// At least.
    pub least: Option<f64>,
    /// At most.
    pub most: Option<f64>,
}

/// Bounds of the counters after a change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CounterBounds {
    /// Requests per second.
    pub requests_per_s: Limits,
    /// Mean response, s.
    pub response_s: Limits,
    /// Busy share of each member if programs ask for as much as the change says: 1 or more cannot be served.
    pub member_utilization: f64,
}

/// What a log proves of a change although no model fits it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIfBounds {
    /// The change as typed.
    pub change: String,
    /// Device that is changed.
    pub device: String,
    /// Description of the method.
    pub model: &'static str,
    /// Always false: bounds are no prediction.
    pub trusted: bool,
    /// As measured.
    pub before: DeviceCounters,
    /// Busy share of each member, as measured or by its queue.
    pub utilization_before: f64,
    /// Bounds after the change.
    pub bounds: CounterBounds,
    /// Notes on the bounds.
    pub notes: Vec<String>,
    /// What to record for more.
    pub record: &'static str,
}

/// Today's state of a device, and what follows from it.
struct SteadyState<'a> {
    front: &'a FrontLoad,
    point: LoadPoint,
    utilization: f64,
    /// Service time of an I/O of a member, s.
    service_s: f64,
}

/// Returns what a log proves of a change of disks, level or load.
///
/// # Errors
/// A missing object, a change that the array does not allow, or one of which a single load proves nothing.
pub fn bound_change(series: &LoadSeries, text: &str, percentile: f64) -> Result<WhatIfBounds, WhatIfError> {
    let change = parse_change(text).map_err(|because| WhatIfError::Names(text.into(), because))?;
    let refused = |because: &str| WhatIfError::Refused(text.into(), because.into());
    let front = most_loaded_front(series).ok_or_else(|| refused("the log has no disk with requests in flight"))?;
    let point = LoadPoint::at_percentile(front, percentile).ok_or_else(|| refused("the log has no load"))?;
    let (state, mut notes) = SteadyState::new(front, point);
    let bounds = match change {
        Change::Disks(added) => state.bound_array(change_disks(text, front, added)?, &mut notes),
        Change::Level(from, to) => state.bound_array(change_level(text, front, from, to)?, &mut notes),
        Change::Load(factor) => state.bound_load(factor, &mut notes),
        Change::Memory(_) | Change::MoveSwap | Change::Controller(_) | Change::Volume { .. } => {
            return Err(refused(&format!("a single load proves nothing of it; {WHAT_TO_RECORD}")));
        }
    };
    Ok(WhatIfBounds {
        change: text.into(),
        device: front.name.clone(),
        model: "bounds by the utilization law and by Little's law",
        trusted: false,
        before: point.measured_counters(front),
        utilization_before: state.utilization,
        bounds,
        notes,
        record: WHAT_TO_RECORD,
    })
}

impl<'a> SteadyState<'a> {
    fn new(front: &'a FrontLoad, point: LoadPoint) -> (SteadyState<'a>, Vec<String>) {
        let mut notes = Vec::new();
        let measured = front.sums.busy_s / front.sums.seconds;
        let utilization = if measured > 0.0 {
            measured.min(1.0)
        } else {
            // M/M/1: the mean number in a member is U / (1 - U)
            let queue = point.requests_per_s() * point.response_s / front.members.max(1) as f64;
            notes.push("the log has no busy time: it is estimated by the queue of each member, as M/M/1".into());
            queue / (1.0 + queue)
        };
        let member_load = member_load_on(front.level, front.members, point.reads, point.writes);
        (SteadyState { front, point, utilization, service_s: utilization / member_load }, notes)
    }

    /// Sequential services of a mean request.
    fn services_per_request(&self, array: &ChangedArray) -> f64 {
        let share = self.point.writes / self.point.requests_per_s();
        1.0 - share + share * write_phases(array.level, array.members)
    }

    fn bound_array(&self, after: ChangedArray, notes: &mut Vec<String>) -> CounterBounds {
        let front = self.front;
        let before = ChangedArray { level: front.level, members: front.members, notes: Vec::new() };
        let LoadPoint { reads, writes, response_s } = self.point;
        let requests = self.point.requests_per_s();
        let load_on = |array: &ChangedArray| member_load_on(array.level, array.members, reads, writes);
        let slowdown = (load_on(&after) / load_on(&before))
            .max(self.services_per_request(&after) / self.services_per_request(&before));
        let utilization = self.utilization * load_on(&after) / load_on(&before);
        let capacity = requests / utilization;
        let (least, worst) = (requests / slowdown.max(1.0), response_s * slowdown.max(1.0));
        let in_flight = requests * response_s;
        let alone_s = self.service_s * self.services_per_request(&after);
        let kept_busy = capacity.min(in_flight / alone_s);
        notes.extend(after.notes);
        notes.push(describe_utilization("the same load", utilization, self.utilization));
        notes.push(format!(
            "with as many requests in flight as today ({in_flight:.1}): at most {kept_busy:.0} requests/s, in {:.1} ms \
             each",
            in_flight / kept_busy * 1e3
        ));
        notes.push(SINGLE_SERVER.into());
        CounterBounds {
            requests_per_s: Limits { least: Some(least.min(capacity)), most: Some(capacity.max(least)) },
            response_s: Limits { least: Some(alone_s.min(worst)), most: Some(worst) },
            member_utilization: utilization,
        }
    }

    fn bound_load(&self, factor: f64, notes: &mut Vec<String>) -> CounterBounds {
        let requests = self.point.requests_per_s();
        let utilization = self.utilization * factor;
        let capacity = requests / self.utilization;
        let today = ChangedArray { level: self.front.level, members: self.front.members, notes: Vec::new() };
        notes.push(describe_utilization("the changed load", utilization, self.utilization));
        notes.push(SINGLE_SERVER.into());
        let response = self.point.response_s;
        let (response_s, least, most) = if factor >= 1.0 {
            (Limits { least: Some(response), most: None }, requests, (factor * requests).min(capacity))
        } else {
            let alone_s = (self.service_s * self.services_per_request(&today)).min(response);
            (Limits { least: Some(alone_s), most: Some(response) }, factor * requests, requests)
        };
        CounterBounds {
            requests_per_s: Limits { least: Some(least), most: Some(most) },
            response_s,
            member_utilization: utilization,
        }
    }
}

/// The assumption behind a maximum.
const SINGLE_SERVER: &str = "assumed: the load is spread evenly, and a member serves one request at a time, as a disk \
                             with one arm does; flash serves several";

fn describe_utilization(load: &str, after: f64, before: f64) -> String {
    let [percent, today] = [after, before].map(|share| share * 100.0);
    if after < 1.0 {
        format!("{load} keeps each member {percent:.0} % busy; today it is {today:.0} %")
    } else {
        format!("{load} is {percent:.0} % of what each member serves: it cannot be served; today it is {today:.0} %")
    }
}
