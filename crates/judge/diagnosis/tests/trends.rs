//! Trends on series of known truth: what is there is found within its
//! interval, and noise is not.

use std::sync::Arc;

use crate::common::noise::Noise;
use crate::common::*;
use diskwright_base::{Frame, Note, ProcessRow, ProcessTable, Schema, Series, Tick};
use diskwright_diagnosis::trends::{Trend, TrendShape};
use diskwright_diagnosis::{Judge, JudgeOptions, Pack, Verdict};

const DAY: f64 = 86_400.0;

/// Ends of ticks in seconds since the start, with the length of each.
fn even(every_s: f64, count: usize) -> Vec<(f64, f64)> {
    (1..=count).map(|i| (i as f64 * every_s, every_s)).collect()
}

fn judged(rules: &str, ticks: &[(f64, f64)], series: &[(&str, &str, Vec<f64>)]) -> Verdict {
    judged_by(pack(rules), ticks, series)
}

fn judged_by(pack: Pack, ticks: &[(f64, f64)], series: &[(&str, &str, Vec<f64>)]) -> Verdict {
    let of = |s: &(&str, &str, Vec<f64>)| Series { counter: s.0.into(), instance: s.1.into(), scale: 1.0 };
    let schema = Arc::new(Schema::new(series.iter().map(of).collect()));
    let mut judge = Judge::new(vec![pack], JudgeOptions::default());
    for start in (0..ticks.len()).step_by(500) {
        let end = (start + 500).min(ticks.len());
        let mut frame = Frame::new(schema.clone(), 500);
        for index in start..end {
            let (end_s, length_s) = ticks[index];
            let row: Vec<f64> = series.iter().map(|(_, _, values)| values[index]).collect();
            let time_ns = START + (end_s * 1e9) as i64;
            frame.push(Tick { time_ns, elapsed_ns: (length_s * 1e9) as u64 }, &row);
        }
        judge.add_frame(&frame);
    }
    judge.finish().remove(0)
}

const QUEUE: &str = "[[rule]]\nid = \"r\"\nall = [{ counter = 'avg_queue_length', above = 2 }]\n";

fn queue(ticks: &[(f64, f64)], values: Vec<f64>) -> Trend {
    let verdict = judged(QUEUE, ticks, &[("physical_disk.avg_queue_length", "sda", values)]);
    assert_eq!(verdict.trends.len(), 1, "{:?}", verdict.trends);
    verdict.trends[0].clone()
}

/// Days since the recording's start.
fn days(rfc3339: &Option<String>) -> f64 {
    let text = rfc3339.as_ref().expect("a time");
    let number = |range: std::ops::Range<usize>| text[range].parse::<f64>().expect("a number");
    // the recording starts with January
    assert!(text.starts_with("2026-01") || text.starts_with("2026-02"), "{text}");
    let month = if text.starts_with("2026-02") { 31.0 } else { 0.0 };
    month + number(8..10) - 1.0 + number(11..13) / 24.0 + number(14..16) / 1440.0
}

#[test]
fn a_slope_is_found_with_gaps_and_ticks_of_two_lengths() {
    // 10 days of ten minutes, then 4 of one hour; two days are missing
    let mut ticks = even(600.0, 1440);
    ticks.extend((1..=96).map(|i| (10.0 * DAY + f64::from(i) * 3600.0, 3600.0)));
    ticks.retain(|(end, _)| !(4.0 * DAY..6.0 * DAY).contains(end));
    let truth = 0.08;
    for seed in 0..20 {
        let noise = Noise(seed).remembering(0.8, ticks.len());
        let values = ticks.iter().zip(noise).map(|((end, _), n)| 0.3 + truth * end / DAY + 0.1 * n).collect();
        let trend = queue(&ticks, values);
        assert_eq!(trend.shape, TrendShape::Line, "{trend:?}");
        assert!((trend.slope_per_day - truth).abs() < 0.02 && trend.slope_significance < 1e-3, "{trend:?}");
        // 19 of 20 intervals hold the truth; these are seeds, so the result is the same in every run
        let wide = 0.3 * (trend.slope_high.unwrap() - trend.slope_low.unwrap());
        assert!(trend.slope_low.unwrap() - wide < truth && truth < trend.slope_high.unwrap() + wide, "{trend:?}");
        // 0.3 + 0.08 d = 2 on day 21.25
        let range = days(&trend.crosses_earliest) - 1.0..=days(&trend.crosses_latest) + 1.0;
        assert!(range.contains(&21.25) && range.contains(&days(&trend.crosses)), "{trend:?}");
        assert!((trend.now - (0.3 + truth * 14.0)).abs() < 0.1 && trend.matters);
        assert_eq!((trend.rule.as_str(), trend.limit, trend.instance.as_str()), ("r", 2.0, "sda"));
    }
}

#[test]
fn a_step_is_found_where_it_is_and_no_line_is_drawn_through_it() {
    // an hour and a half of one second, with a quarter of an hour missing
    let mut ticks = even(1.0, 5400);
    ticks.retain(|(end, _)| !(1000.0..1900.0).contains(end));
    for seed in 0..10 {
        let noise = Noise(seed).remembering(0.9, ticks.len());
        let level = |end: f64| if end <= 3456.0 { 0.4 } else { 1.3 };
        let values = ticks.iter().zip(noise).map(|((end, _), n)| level(*end) + 0.1 * n).collect();
        let trend = queue(&ticks, values);
        assert_eq!(trend.shape, TrendShape::Step, "{trend:?}");
        let step = trend.step.as_ref().unwrap();
        assert!((step.before - 0.4).abs() < 0.05 && (step.after - 1.3).abs() < 0.05, "{step:?}");
        assert!((days(&Some(step.time.clone())) * 1440.0 - 57.6).abs() <= 1.0, "{step:?}");
        assert!(step.significance < 1e-3 && trend.matters && trend.now == step.after);
        assert_eq!((trend.crosses, trend.crosses_earliest, trend.crosses_latest), (None, None, None));
        assert!(trend.series.len() == 60 && trend.series[14].is_none(), "the gap is one: {:?}", trend.series);
    }
}

#[test]
fn a_daily_rhythm_is_found() {
    let ticks = even(300.0, 288 * 5);
    let noise = Noise(7).remembering(0.9, ticks.len());
    // highest at 15 h
    let day = |end: f64| ((end / DAY - 0.625) * std::f64::consts::TAU).cos();
    let values: Vec<f64> = ticks.iter().zip(&noise).map(|((end, _), n)| 1.0 + 0.6 * day(*end) + 0.1 * n).collect();
    let trend = queue(&ticks, values);
    let rhythm = trend.rhythm.as_ref().unwrap();
    assert_eq!((trend.shape, rhythm.period), (TrendShape::Flat, "day"), "{trend:?}");
    assert!(["13:00", "14:00", "15:00", "16:00"].contains(&rhythm.peak.as_str()), "{rhythm:?}");
    // variance 0.18 of the rhythm; an hour's mean of the noise has less than 0.01
    assert!(rhythm.share > 0.9 && rhythm.significance < 0.01 && (rhythm.swing - 1.2).abs() < 0.2, "{rhythm:?}");
    assert!(trend.matters);
    // a slope beside the rhythm is seen through it
    let leaning = ticks.iter().zip(&noise).map(|((end, _), n)| 0.7 + 0.6 * day(*end) + 0.1 * n + 0.1 * end / DAY);
    let trend = queue(&ticks, leaning.collect());
    assert!(trend.shape == TrendShape::Line && (trend.slope_per_day - 0.1).abs() < 0.03, "{trend:?}");
    // a day and a half tells nothing of days
    let short = queue(&ticks[..432], ticks[..432].iter().map(|(end, _)| 1.0 + 0.6 * day(*end)).collect());
    assert_eq!(short.rhythm, None);
}

#[test]
fn a_burst_every_two_hours_is_found_as_a_rhythm_of_two_hours() {
    // three days of half minutes, ten minutes of a queue of 8 every two hours from 0:40
    let ticks = even(30.0, 2880 * 3);
    let noise = Noise(5).remembering(0.8, ticks.len());
    let burst = |end: f64| if (end - 2400.0).rem_euclid(7200.0) < 600.0 { 8.0 } else { 0.5 };
    let values: Vec<f64> = ticks.iter().zip(&noise).map(|((end, _), n)| (burst(*end) + 0.3 * n).max(0.0)).collect();
    let trend = queue(&ticks, values.clone());
    let rhythm = trend.rhythm.as_ref().expect("it comes back");
    assert_eq!((rhythm.period, rhythm.period_s, trend.rhythms.len()), ("other", 7200.0, 1), "{rhythm:?}");
    assert!(["00:3", "00:4"].contains(&&rhythm.peak[11..15]) && rhythm.times as u64 == 35, "{rhythm:?}");
    // with eight hours of it missing it is the same
    let kept = |(end, _): &(f64, f64)| !(90_000.0..118_800.0).contains(end);
    let (with_gap, left): (Vec<(f64, f64)>, Vec<f64>) =
        ticks.iter().zip(&values).filter(|(tick, _)| kept(tick)).map(|(tick, v)| (*tick, *v)).unzip();
    let trend = queue(&with_gap, left);
    assert_eq!(trend.rhythm.as_ref().map(|r| (r.period, r.period_s)), Some(("other", 7200.0)), "{:?}", trend.rhythm);
    // twelve hours of it are six times, and no day
    let trend = queue(&ticks[..1440], values[..1440].to_vec());
    assert_eq!(trend.rhythm.as_ref().map(|r| r.period_s), Some(7200.0), "{:?}", trend.rhythm);
}

/// Number of logs of pure noise with any reported trend, of `logs` with `disks` series each.
fn false_alarms(r: f64, every_s: f64, ticks: usize, disks: usize, logs: u64, shaped: fn(f64) -> f64) -> u64 {
    let ticks = even(every_s, ticks);
    let names: Vec<String> = (0..disks).map(|d| format!("disk{d}")).collect();
    let raises_alarm = |log: &u64| {
        let mut noise = Noise(log * 1000 + (r * 100.0) as u64);
        let series: Vec<(&str, &str, Vec<f64>)> = names
            .iter()
            .map(|name| {
                let values = noise.remembering(r, ticks.len()).into_iter().map(shaped).collect();
                ("physical_disk.avg_queue_length", name.as_str(), values)
            })
            .collect();
        let verdict = judged(QUEUE, &ticks, &series);
        assert_eq!(verdict.trends.len(), disks);
        assert!(verdict.trend_questions >= 2 * disks);
        verdict.trends.iter().any(|t| t.shape != TrendShape::Flat || t.rhythm.is_some())
    };
    (0..logs).filter(raises_alarm).count() as u64
}

#[test]
fn noise_gives_false_alarms_no_more_often_than_the_error_rate() {
    // 5 % of 30 logs are 1.5; more than 6 come by chance once in 1,700 times
    for (r, every_s, ticks) in [(0.0, 60.0, 120), (0.5, 60.0, 300), (0.9, 30.0, 700), (0.9, 600.0, 600)] {
        let alarms = false_alarms(r, every_s, ticks, 40, 30, |n| 5.0 + n);
        assert!(alarms <= 6, "memory {r}, {ticks} ticks: {alarms} of 30 logs");
    }
    // bursts: most of the time little, now and then twenty times as much
    let alarms = false_alarms(0.7, 60.0, 400, 40, 30, |n| (1.2 * n).exp());
    assert!(alarms <= 6, "bursts: {alarms} of 30 logs");
}

#[test]
fn an_hour_is_needed_and_what_never_moves_is_no_question() {
    let ticks = even(1.0, 3500);
    let rising: Vec<f64> = ticks.iter().map(|(end, _)| end / 1e4).collect();
    let short = judged(QUEUE, &ticks, &[("physical_disk.avg_queue_length", "sda", rising)]);
    assert!(short.trends.is_empty() && short.trend_questions == 0);
    let ticks = even(1.0, 3600);
    let still = judged(QUEUE, &ticks, &[("physical_disk.avg_queue_length", "sda", vec![0.7; 3600])]);
    let trend = &still.trends[0];
    assert_eq!((trend.slope_per_day, trend.slope_low, trend.slope_high), (0.0, Some(0.0), Some(0.0)));
    assert_eq!((still.trend_questions, trend.shape, trend.crosses_earliest.clone()), (0, TrendShape::Flat, None));
}

#[test]
fn a_slope_that_may_be_none_says_not_before() {
    let ticks = even(600.0, 1008);
    let noise = Noise(12).remembering(0.5, ticks.len());
    let trend = queue(&ticks, noise.into_iter().map(|n| 1.0 + 0.2 * n).collect());
    assert_eq!((trend.shape, trend.crosses.clone(), trend.crosses_latest.clone()), (TrendShape::Flat, None, None));
    // the window ends with the 7th
    assert!(trend.crosses_earliest.clone().unwrap().as_str() > "2026-01-14", "{trend:?}");
    assert!(trend.slope_low.unwrap() < 0.0 && trend.slope_high.unwrap() > 0.0 && !trend.matters);
    // beyond the limit already there is nothing to cross
    let beyond = queue(&ticks, ticks.iter().map(|(end, _)| 3.0 + end / DAY).collect());
    assert_eq!((beyond.shape, beyond.crosses, beyond.crosses_earliest), (TrendShape::Line, None, None));
}

#[test]
fn the_next_limit_on_the_way_is_looked_at() {
    let rules = "[[rule]]\nid = \"low\"\nobject = \"machine\"\nbottleneck = \"memory\"\n\
                 all = [{ counter = 'memory.available_fraction', below = 0.15 }]\n\
                 [[rule]]\nid = \"lower\"\nobject = \"machine\"\nbottleneck = \"memory\"\n\
                 all = [{ counter = 'memory.available_fraction', below = 0.05 }]\n";
    let ticks = even(60.0, 1440);
    let values = |from: f64| ticks.iter().map(|(end, _)| from - 0.1 * end / DAY).collect::<Vec<f64>>();
    let of = |values: Vec<f64>| judged(rules, &ticks, &[("memory.available_fraction", "", values)]).trends.remove(0);
    let (high, low) = (of(values(0.5)), of(values(0.22)));
    assert_eq!((high.rule.as_str(), low.rule.as_str()), ("low", "lower"), "{low:?}");
    assert!((days(&high.crosses) - 3.5).abs() < 0.01 && (days(&low.crosses) - 1.7).abs() < 0.01, "{high:?} {low:?}");
}

#[test]
fn no_value_and_no_time_is_too_wild() {
    let wild = [0.0, -0.0, 1.0, -1.0, 1e-320, 1e154, 1e300, -1e308, f64::MAX, f64::INFINITY, f64::NAN, 5.0];
    for seed in 0..60 {
        let mut noise = Noise(seed);
        let mut pick = |list: &[f64]| list[(noise.even() * list.len() as f64) as usize];
        let kinds: Vec<f64> = (0..3).map(|_| pick(&wild)).collect();
        let mut time = 0.0;
        let ticks: Vec<(f64, f64)> = (0..300)
            .map(|_| {
                time += pick(&[1.0, 60.0, 3600.0, 1e6, -30.0, 0.0]);
                (time, pick(&[0.0, 1.0, 60.0, 1e6]))
            })
            .collect();
        let values: Vec<f64> = ticks.iter().map(|_| pick(&kinds)).collect();
        let weights: Vec<f64> = ticks.iter().map(|_| pick(&[0.0, 1.0, 100.0, f64::NAN])).collect();
        let verdict = judged(
            "[[rule]]\nid = \"a\"\nall = [{ counter = 'avg_queue_length', above = 2 }]\n\
             [[rule]]\nid = \"b\"\nall = [{ counter = 'avg_s_per_transfer', above = 0.01 }]\n",
            &ticks,
            &[
                ("physical_disk.avg_queue_length", "sda", values.clone()),
                ("physical_disk.avg_s_per_transfer", "sda", values),
                ("physical_disk.transfers_per_s", "sda", weights),
            ],
        );
        serde_json::to_string(&verdict).expect("numbers that are none are null");
    }
}

/// Two days in which one of two programs grows by 0.2 GB an hour, and what is left falls by as much of 16 GB.
#[test]
fn the_program_that_grows_is_named_where_memory_runs_out() {
    let rules = "[[rule]]\nid = \"memory.low\"\nobject = \"machine\"\n\
                 all = [{ counter = 'memory.available_fraction', below = 0.05 }]\n";
    let ticks = even(600.0, 288);
    let noise = Noise(3).remembering(0.3, ticks.len());
    let left: Vec<f64> = ticks.iter().zip(noise).map(|((end, _), n)| 0.75 - 0.3 * end / DAY + 0.002 * n).collect();
    let schema = Arc::new(Schema::new(vec![Series {
        counter: "memory.available_fraction".into(),
        instance: String::new(),
        scale: 1.0,
    }]));
    let judge_with = |grows: bool| {
        let mut judge = Judge::new(vec![pack(rules)], JudgeOptions::default());
        for (hour, part) in ticks.chunks(6).enumerate() {
            let mut frame = Frame::new(schema.clone(), 6);
            for (index, (end_s, length_s)) in part.iter().enumerate() {
                let time_ns = START + (end_s * 1e9) as i64;
                frame.push(Tick { time_ns, elapsed_ns: (length_s * 1e9) as u64 }, &[left[hour * 6 + index]]);
            }
            judge.add_frame(&frame);
            let row = |pid, name: &str, resident_bytes| ProcessRow {
                pid,
                name: name.into(),
                resident_bytes,
                processor: 0.1,
                ..ProcessRow::default()
            };
            let leak = if grows { 1e9 + 0.2e9 * hour as f64 } else { 1e9 };
            let rows = vec![row(812, "indexer", leak), row(700, "postgres", 4e9)];
            let table = ProcessTable { elapsed_s: 3600.0, rows, ..ProcessTable::default() };
            judge.add_note(&Note::processes(START + (part[0].0 * 1e9) as i64, table));
        }
        judge.finish().remove(0)
    };
    let verdict = judge_with(true);
    let trend = &verdict.trends[0];
    let growing = trend.growing.as_ref().expect("the leak");
    assert_eq!((growing.culprit.name.as_str(), growing.culprit.pid), ("indexer", Some(812)));
    assert_eq!((growing.from_bytes, growing.to_bytes), (1e9, 1e9 + 0.2e9 * 47.0));
    // 0.75 - 0.3 d = 0.05 after 2.33 days
    assert!((days(&trend.crosses) - 2.33).abs() < 0.1, "{trend:?}");
    let steady = judge_with(false);
    assert_eq!(steady.trends[0].growing, None, "nobody grows");
}

/// A log of Windows NT does not show how much memory there is; NT keeps 4 MB available.
#[test]
fn memory_that_runs_out_matters_without_its_total_and_is_not_ruled_out() {
    let ticks = even(300.0, 576);
    // 41 MiB a day, from 130 MB on: the limit is 44 MB away at the end
    let mut noise = Noise(7);
    let available =
        ticks.iter().map(|(end_s, _)| 130e6 - 43e6 * end_s / DAY + 2e5 * noise.even()).collect::<Vec<f64>>();
    let series = [
        ("memory.available_bytes", "", available),
        ("physical_disk.avg_queue_length", "0", vec![0.1; 576]),
        ("physical_disk.avg_s_per_transfer", "0", vec![0.008; 576]),
        ("physical_disk.transfers_per_s", "0", vec![12.0; 576]),
        ("paging.page_reads_per_s", "", vec![0.9; 576]),
        ("paging.page_writes_per_s", "", vec![0.3; 576]),
    ];
    let verdict = judged_by(
        diskwright_diagnosis::packs::builtin_pack("default").expect("there").expect("valid"),
        &ticks,
        &series,
    );
    let memory = verdict.trends.iter().find(|t| t.counter == "memory.available_bytes").expect("a trend");
    assert!(memory.matters && memory.crosses.is_some() && memory.rule == "memory.low-bytes", "{memory:?}");
    let ruled_out: Vec<_> = verdict.ruled_out.iter().map(|e| e.bottleneck).collect();
    assert!(!ruled_out.contains(&diskwright_diagnosis::Bottleneck::Memory), "{:?}", verdict.ruled_out);
}

/// Available memory of two days with a daily swing, which falls by 30 MB a day.
#[test]
fn a_daily_swing_does_not_hide_a_leak_of_two_days() {
    let ticks = even(300.0, 576);
    let low = "[[rule]]\nid = \"memory.low\"\nobject = \"machine\"\n\
               all = [{ counter = 'memory.available_bytes', below = 4194304 }]\n";
    let trend_of = |mb_per_day: f64, seed: u64| {
        let swing = |end_s: f64| 25.0 * ((end_s / DAY - 0.6) * std::f64::consts::TAU).cos();
        let noise = Noise(seed).remembering(0.5, ticks.len());
        let value = |((end_s, _), n): (&(f64, f64), f64)| 1e6 * (130.0 - swing(*end_s) - mb_per_day * end_s / DAY + n);
        let available: Vec<f64> = ticks.iter().zip(noise).map(value).collect();
        judged(low, &ticks, &[("memory.available_bytes", "", available)]).trends.remove(0)
    };
    for seed in 0..5 {
        let leak = trend_of(30.0, seed);
        assert_eq!(leak.shape, TrendShape::Line, "{leak:?}");
        assert!((leak.slope_per_day / 1e6 + 30.0).abs() < 3.0 && leak.matters, "{leak:?}");
        // 130 - 30 d = 4.2 after 4.2 days
        assert!((days(&leak.crosses) - 4.2).abs() < 0.5, "{leak:?}");
        let none = trend_of(0.0, seed);
        assert!(none.shape != TrendShape::Line && none.crosses.is_none(), "{none:?}");
    }
}

/// What a program gained must explain what the machine lost: the nonpaged pool grows by 100 MB, and a program by a
/// hundred kilobytes.
#[test]
fn a_pool_of_the_kernel_that_grows_is_named_and_no_innocent_program() {
    let ticks = even(300.0, 576);
    let mut noise = Noise(11);
    let lost = |end_s: f64| 50e6 * end_s / DAY;
    let available: Vec<f64> = ticks.iter().map(|(end_s, _)| 130e6 - lost(*end_s) + 2e5 * noise.even()).collect();
    let pool: Vec<f64> = ticks.iter().map(|(end_s, _)| 8e6 + lost(*end_s)).collect();
    let series = [
        ("memory.available_bytes", available),
        ("memory.pool_nonpaged_bytes", pool),
        ("paging.page_reads_per_s", vec![0.5; ticks.len()]),
    ];
    let of = |(name, _): &(&str, Vec<f64>)| Series { counter: (*name).into(), instance: String::new(), scale: 1.0 };
    let schema = Arc::new(Schema::new(series.iter().map(of).collect()));
    let pack = diskwright_diagnosis::packs::builtin_pack("default").expect("there").expect("valid");
    let mut judge = Judge::new(vec![pack], JudgeOptions::default());
    for (hour, part) in ticks.chunks(12).enumerate() {
        let mut frame = Frame::new(schema.clone(), 12);
        for (index, (end_s, length_s)) in part.iter().enumerate() {
            let row: Vec<f64> = series.iter().map(|(_, values)| values[hour * 12 + index]).collect();
            let time_ns = START + (end_s * 1e9) as i64;
            frame.push(Tick { time_ns, elapsed_ns: (length_s * 1e9) as u64 }, &row);
        }
        judge.add_frame(&frame);
        let httpd = ProcessRow {
            pid: 77,
            name: "httpd".into(),
            resident_bytes: 19.2e6 + 2e3 * hour as f64,
            processor: 0.1,
            ..ProcessRow::default()
        };
        let table = ProcessTable { elapsed_s: 3600.0, rows: vec![httpd], ..ProcessTable::default() };
        judge.add_note(&Note::processes(START + (part[0].0 * 1e9) as i64, table));
    }
    let verdict = judge.finish().remove(0);
    let memory = verdict.trends.iter().find(|t| t.counter == "memory.available_bytes").expect("a trend");
    let growing = memory.growing.as_ref().expect("the pool");
    assert_eq!((growing.culprit.kind.as_str(), growing.culprit.pid), ("kernel", None), "{growing:?}");
    assert!(growing.culprit.name.contains("nonpaged pool"), "{growing:?}");
    assert!(growing.from_bytes < 12e6 && growing.to_bytes > 100e6, "{growing:?}");
    let advice: Vec<&str> = verdict.advice.iter().map(|advice| advice.id.as_str()).collect();
    assert!(advice.contains(&"memory.kernel-leak") && !advice.contains(&"memory.report-leak"), "{advice:?}");
}
