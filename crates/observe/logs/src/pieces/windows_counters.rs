//! Counters of Windows as a table or list, as they are copied from PerfMon's report, from articles or from
//! `Get-Counter`: an object, its instances, and a number for each counter.

use super::Snapshot;
use crate::nt::{CounterPath, QUEUE_PRODUCTS, is_known_counter, is_known_object, resolve_counter};
use crate::stamp_line::parse_stamp;
use crate::sysstat::time::NumericDateOrder;

/// Object, instances and counter that were read last.
#[derive(Default)]
pub struct WindowsState {
    object: String,
    instances: Vec<String>,
    counter: String,
    /// Index of the instance whose number is next.
    next: usize,
}

/// Reads a line of cells that blanks, tabs or bars part.
pub fn read_line(snapshot: &mut Snapshot<'_, '_>, line: &str) -> bool {
    let line = take_stamp(snapshot, line);
    let is_heading = line.trim_start().starts_with("Timestamp") && line.contains("CounterSamples");
    let is_rule = line.starts_with("-----") && line.bytes().all(|b| matches!(b, b'-' | b' '));
    if is_heading || is_rule {
        return true;
    }
    let spaced = line.replace("  ", "\t");
    let cells: Vec<&str> = spaced.split(['|', '\t']).map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let is_of_table = !snapshot.windows.object.is_empty();
    let mut taken = false;
    for cell in cells {
        taken |= read_cell(snapshot, cell);
    }
    // rows of objects that are not known stand between those that are
    taken || is_of_table && line.contains('|')
}

/// Takes the time off the first line of a report of Get-Counter, which stands before a counter's path.
fn take_stamp<'l>(snapshot: &mut Snapshot<'_, '_>, line: &'l str) -> &'l str {
    let Some(begin) = line.find("\\\\").filter(|begin| *begin > 0) else { return line };
    let before = line[..begin].trim().trim_end_matches("Readings :").trim();
    if let Some(stamp) = parse_stamp(before, NumericDateOrder::MonthFirst).filter(|_| snapshot.batch.is_some()) {
        snapshot.finish_tick();
        snapshot.times.set_stamp(stamp);
    }
    &line[begin..]
}

fn read_cell(snapshot: &mut Snapshot<'_, '_>, cell: &str) -> bool {
    let bare = cell.trim_end_matches(':').trim();
    if bare.starts_with('\\') {
        return read_path(snapshot, bare);
    }
    let state = &mut snapshot.windows;
    if is_known_object(bare) {
        *state = WindowsState { object: bare.to_owned(), ..WindowsState::default() };
        return true;
    }
    if state.object.is_empty() {
        return false;
    }
    if is_known_counter(&state.object, bare) {
        (state.counter, state.next) = (bare.to_owned(), 0);
        return true;
    }
    if let Some(value) = parse_number(cell).filter(|_| !state.counter.is_empty()) {
        let instance = state.instances.get(state.next).cloned().unwrap_or_default();
        state.next += 1;
        let column = resolve_counter(&state.object, &instance, &state.counter);
        if state.next == 1 {
            let name = format!("windows {} {}", column.counter, column.instance);
            let (windows, counter) = (std::mem::take(&mut snapshot.windows), column.counter.clone());
            snapshot.begin_piece(&name);
            snapshot.windows = windows;
            snapshot.put_value(&counter, &column.instance, value * column.scale);
        } else {
            snapshot.put_value(&column.counter, &column.instance, value * column.scale);
        }
        put_queue_length(snapshot, &column.counter, &column.instance);
        return true;
    }
    let is_instance = state.counter.is_empty() && cell.len() <= 60;
    if is_instance {
        // `C:` keeps its colon
        state.instances.push(cell.to_owned());
    } else if !cell.bytes().any(|b| b.is_ascii_digit()) {
        // another counter, which is not known
        state.counter.clear();
    }
    is_instance
}

/// Puts the queue length that follows from a rate and the seconds per request (Little's law), once both are there.
fn put_queue_length(snapshot: &mut Snapshot<'_, '_>, counter: &str, instance: &str) {
    let Some((object, name)) = counter.split_once('.').filter(|(object, _)| object.ends_with("_disk")) else { return };
    let Some([length, rate, seconds]) = QUEUE_PRODUCTS.iter().find(|product| product.contains(&name)) else { return };
    let value = |name: &str| snapshot.value(&format!("{object}.{name}"), instance);
    if let (None, Some(rate), Some(seconds)) = (value(length), value(rate), value(seconds)) {
        snapshot.put_value(&format!("{object}.{length}"), instance, rate * seconds);
    }
}

/// Reads `\\HOST\Object(instance)\Counter`; its number follows.
fn read_path(snapshot: &mut Snapshot<'_, '_>, text: &str) -> bool {
    let Some(path) = CounterPath::parse(text) else { return false };
    if !is_known_counter(&path.object, &path.counter) {
        snapshot.windows = WindowsState::default();
        return false;
    }
    let instances = if path.instance.is_empty() { Vec::new() } else { vec![path.instance] };
    snapshot.windows = WindowsState { object: path.object, instances, counter: path.counter, next: 0 };
    true
}

/// Parses `0.119`, `1,177,144.269`, `0,119`.
fn parse_number(cell: &str) -> Option<f64> {
    let has_point = cell.contains('.');
    let text = if has_point { cell.replace(',', "") } else { cell.replace(',', ".") };
    text.parse().ok().filter(|value| (0.0..1e15).contains(value))
}
