//! Counters that a log leaves out but that follow from its columns. By Little's law, requests per second times seconds
//! per request are the requests in flight; the interrupts of all processors are the machine's. The catalogue's formulas
//! have neither products nor sums over instances, and rules need these counters.

use std::collections::{HashMap, HashSet};

use diskwright_base::counter_ids::{interrupts, processor};
use diskwright_base::{Frame, Series};

/// Objects with these counters.
const OBJECTS: [&str; 2] = ["physical_disk", "logical_disk"];
/// Names of queue length, rate, and seconds per request.
pub const QUEUE_PRODUCTS: [[&str; 3]; 3] = [
    ["avg_queue_length", "transfers_per_s", "avg_s_per_transfer"],
    ["avg_read_queue_length", "reads_per_s", "avg_s_per_read"],
    ["avg_write_queue_length", "writes_per_s", "avg_s_per_write"],
];

/// Columns of a product and its factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Column of the queue length, behind the log's own.
    pub column: usize,
    /// Column of the rate.
    pub rate: usize,
    /// Column of a second rate that is added to it: reads and writes make transfers.
    pub further_rate: Option<usize>,
    /// Column of the seconds per request.
    pub seconds: usize,
}

/// Appends the missing queue lengths that can be computed to the series of a log; returns the columns to compute them
/// from.
pub fn add_products(series: &mut Vec<Series>) -> Vec<Product> {
    let columns: HashMap<(String, String), usize> =
        series.iter().enumerate().map(|(index, s)| ((s.counter.clone(), s.instance.clone()), index)).collect();
    let mut products = Vec::new();
    for index in 0..series.len() {
        let own_counter = series[index].counter.clone();
        let Some((object, name)) = own_counter.split_once('.') else { continue };
        if !OBJECTS.contains(&object) {
            continue;
        }
        let instance = series[index].instance.clone();
        let column = |name: &str| columns.get(&(format!("{object}.{name}"), instance.clone())).copied();
        if let ("reads_per_s", Some(writes), Some(seconds)) =
            (name, column("writes_per_s"), column("avg_s_per_transfer"))
            && [column("avg_queue_length"), column("transfers_per_s")] == [None, None]
            && series[index].scale == series[writes].scale
        {
            let counter = format!("{object}.avg_queue_length");
            let scale = series[index].scale * series[seconds].scale;
            products.push(Product { column: series.len(), rate: index, further_rate: Some(writes), seconds });
            series.push(Series { counter, instance: instance.clone(), scale });
        }
        let Some([length, _, seconds]) = QUEUE_PRODUCTS.iter().find(|[_, rate, _]| *rate == name) else { continue };
        if let (None, Some(seconds)) = (column(length), column(seconds)) {
            let counter = format!("{object}.{length}");
            // both factors are multiplied in their stored units
            let scale = series[index].scale * series[seconds].scale;
            products.push(Product { column: series.len(), rate: index, further_rate: None, seconds });
            series.push(Series { counter, instance, scale });
        }
    }
    products
}

/// Fills the columns of the products for the frame's ticks.
pub fn fill_products(frame: &mut Frame, products: &[Product]) {
    for product in products {
        for index in 0..frame.ticks().len() {
            let further = product.further_rate.map_or(0.0, |rate| frame.column(rate)[index]);
            let value = (frame.column(product.rate)[index] + further) * frame.column(product.seconds)[index];
            frame.column_mut(product.column)[index] = value;
        }
    }
}

/// Column of a sum and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSum {
    /// Column of the sum, behind the log's own.
    pub column: usize,
    /// Columns that are added.
    pub parts: Vec<usize>,
}

/// Appends the interrupts of the machine to the series of a log that has those of each processor; returns the columns
/// to compute them from.
pub fn add_interrupt_sum(series: &mut Vec<Series>) -> Option<ColumnSum> {
    if series.iter().any(|s| s.counter == interrupts::TOTAL_PER_S) {
        return None;
    }
    let is_processor = |s: &&Series| s.counter.starts_with("processor.") && s.instance.starts_with("cpu");
    let processors = series.iter().filter(is_processor).map(|s| s.instance.as_str()).collect::<HashSet<_>>().len();
    let of_processor = |(column, s): (usize, &Series)| {
        (s.counter == processor::INTERRUPTS_PER_S && is_processor(&s)).then_some(column)
    };
    let parts: Vec<usize> = series.iter().enumerate().filter_map(of_processor).collect();
    // with those of some processors missing, the sum would be too low
    if parts.is_empty() || parts.len() != processors {
        return None;
    }
    let column = series.len();
    let scale = series[parts[0]].scale;
    series.push(Series { counter: interrupts::TOTAL_PER_S.into(), instance: String::new(), scale });
    Some(ColumnSum { column, parts })
}

/// Fills the column of the sum for the frame's ticks.
pub fn fill_sum(frame: &mut Frame, sum: &ColumnSum) {
    for index in 0..frame.ticks().len() {
        let value: f64 = sum.parts.iter().map(|column| frame.column(*column)[index]).sum();
        frame.column_mut(sum.column)[index] = value;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use diskwright_base::{Schema, Tick};

    use super::*;

    #[test]
    fn queue_lengths_are_computed_where_they_are_missing() {
        let one = |counter: &str, instance: &str, scale: f64| Series {
            counter: counter.into(),
            instance: instance.into(),
            scale,
        };
        let mut series = vec![
            one("physical_disk.reads_per_s", "0 C:", 1.0),
            one("physical_disk.avg_s_per_read", "0 C:", 0.001),
            one("physical_disk.reads_per_s", "1 D:", 1.0),
            one("physical_disk.transfers_per_s", "0 C:", 1.0),
            one("physical_disk.avg_s_per_transfer", "0 C:", 1.0),
            one("physical_disk.avg_queue_length", "0 C:", 1.0),
        ];
        let products = add_products(&mut series);
        assert_eq!(products, [Product { column: 6, rate: 0, further_rate: None, seconds: 1 }]);
        assert_eq!(series[6], one("physical_disk.avg_read_queue_length", "0 C:", 0.001));
        let mut frame = Frame::new(Arc::new(Schema::new(series)), 2);
        let tick = |time_ns| Tick { time_ns, elapsed_ns: 1 };
        frame.push(tick(1), &[100.0, 20.0, 1.0, 1.0, 1.0, 1.0, f64::NAN]);
        frame.push(tick(2), &[100.0, f64::NAN, 1.0, 1.0, 1.0, 1.0, f64::NAN]);
        fill_products(&mut frame, &products);
        assert_eq!(frame.column(6)[0], 2000.0);
        assert!(frame.column(6)[1].is_nan());
    }

    #[test]
    fn interrupts_of_all_processors_are_those_of_the_machine() {
        let one =
            |counter: &str, instance: &str| Series { counter: counter.into(), instance: instance.into(), scale: 1.0 };
        let of = |instance: &str| one(processor::INTERRUPTS_PER_S, instance);
        let mut series = vec![of("cpu0"), one(processor::BUSY, "cpu0"), of("cpu1"), one(processor::BUSY, "_total")];
        let sum = add_interrupt_sum(&mut series).expect("a sum");
        assert_eq!(sum, ColumnSum { column: 4, parts: vec![0, 2] });
        assert_eq!(series[4], one(interrupts::TOTAL_PER_S, ""));
        let mut frame = Frame::new(Arc::new(Schema::new(series.clone())), 1);
        frame.push(Tick { time_ns: 1, elapsed_ns: 1 }, &[300.0, 0.5, 126.5, 0.5, f64::NAN]);
        fill_sum(&mut frame, &sum);
        assert_eq!(frame.column(4), [426.5]);
        assert!(add_interrupt_sum(&mut series).is_none(), "the log has it");
        // the interrupts of one of two processors
        assert!(add_interrupt_sum(&mut vec![of("cpu0"), one(processor::BUSY, "cpu1")]).is_none());
    }

    #[test]
    fn reads_and_writes_make_the_queue_of_transfers() {
        let one = |name: &str| Series { counter: format!("logical_disk.{name}"), instance: "E:".into(), scale: 1.0 };
        let mut series = vec![one("reads_per_s"), one("writes_per_s"), one("avg_s_per_transfer")];
        let products = add_products(&mut series);
        assert_eq!(products, [Product { column: 3, rate: 0, further_rate: Some(1), seconds: 2 }]);
        assert_eq!(series[3], one("avg_queue_length"));
        let mut frame = Frame::new(Arc::new(Schema::new(series)), 1);
        frame.push(Tick { time_ns: 1, elapsed_ns: 1 }, &[140.0, 80.0, 0.125, f64::NAN]);
        fill_products(&mut frame, &products);
        assert_eq!(frame.column(3), [27.5]);
    }
}
