//! Caveats of an answer: assumptions, old and unknown prices, and what was not counted.

use std::collections::BTreeSet;

use diskwright_base::units::{format_amount, format_significant, format_value};
use diskwright_simulator::ArrayLevel;
use diskwright_simulator::array::LevelForm;
use diskwright_simulator::catalogue::DriveClass;

use crate::answer::{PlanAnswer, PlannedDesign};
use crate::controller_path::ControllerOffer;
use crate::demand::Demand;
use crate::design_part::DesignPart;
use crate::limits::PlanLimits;
use crate::plan_context::PlanContext;
use crate::prices::is_outdated;
use crate::search::SearchOutcome;

/// A log is bursty if its index of dispersion exceeds this: one of 30 pairs of Poisson ticks scatters by a quarter.
const MIN_BURSTY_DISPERSION: f64 = 1.5;
/// Chance of losing data over the mission from which a note mentions it.
const MIN_NOTED_LOSS: f64 = 0.05;
/// Full drive writes per day from which a note mentions them: consumer drives are warranted for about 0.3.
const MIN_NOTED_WRITES_PER_DAY: f64 = 0.3;

/// Collects all notes, each once.
pub(crate) fn collect_notes(context: &PlanContext<'_>, outcome: &SearchOutcome, answer: &PlanAnswer) -> Vec<String> {
    let mut notes = demand_notes(context.demand, context.limits);
    for design in &answer.designs {
        notes.extend(design_notes(context, design));
    }
    notes.extend(volume_notes(context.limits, answer));
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    notes.extend(outcome.unsolved.iter().map(|unsolved| format!("not checked: {unsolved}")));
    notes
}

fn demand_notes(demand: &Demand, limits: &PlanLimits) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if demand.capacity_bytes.is_none() {
        notes.push("no capacity was given: designs are sized only by load (--capacity)".into());
    }
    if demand.growth.is_some_and(|growth| growth.bytes_per_day > 0.0) && limits.horizon_days <= 0.0 {
        notes.push("no horizon was given: designs are sized for today's capacity, without growth (--horizon)".into());
    }
    if demand.growth.is_none() && limits.horizon_days > 0.0 {
        notes.push("the growth is unknown: designs are sized for today's capacity only (--growth)".into());
    }
    if demand.response.is_none() {
        notes.push("no response time was given: designs only have to keep up (--response)".into());
    }
    match demand.sequential_share {
        Some(share) if share > 0.0 => notes.push(format!(
            "{:.0} % of the requests are sequential (in one stream); on rotating disks, those that directly follow \
             each other need no seek; mirrors and small writes to parity are sized as random",
            share * 100.0
        )),
        Some(_) => {}
        None => notes.push(
            "the analysis treats every request to a drive as random; sequential ones are faster on rotating disks"
                .into(),
        ),
    }
    if demand.burstiness.is_some_and(|burst| burst > MIN_BURSTY_DISPERSION) {
        notes.push("arrivals are bursty, but the model assumes a Poisson stream: real responses are longer".into());
    }
    notes
}

fn design_notes(context: &PlanContext<'_>, design: &PlannedDesign) -> Vec<String> {
    let (rank, mut notes) = (design.rank, Vec::new());
    if let Some(date) = design.price_date.as_ref().filter(|date| is_outdated(date, &context.limits.today)) {
        notes.push(format!("the price of {} is older than a year ({date})", design.part));
    }
    let is_used = |offer: &&ControllerOffer| design.controller.as_ref().is_some_and(|used| used.id == offer.id);
    for offer in context.offers.iter().filter(is_used) {
        if let Some(price) = offer.price.as_ref().filter(|price| is_outdated(&price.date, &context.limits.today)) {
            notes.push(format!("the price of {} is older than a year ({})", offer.id, price.date));
        }
    }
    if design.agrees == Some(false) {
        let share = format_significant(design.deviation.unwrap_or(f64::NAN).abs() * 100.0);
        notes.push(format!("rank {rank}: analysis and simulation differ by {share} %"));
    }
    if (design.member_load_published_per_s / design.member_load_per_s - 1.0).abs() > 0.001 {
        notes.push(format!(
            "rank {rank}: {} I/Os per second on each member by this model, {} by the factors of NT Magazine 1998",
            format_significant(design.member_load_per_s),
            format_significant(design.member_load_published_per_s)
        ));
    }
    if design.rebuild_s.is_some() && design.degraded_response_s.is_none() && design.simulated {
        notes.push(format!("rank {rank}: it cannot keep up with the demand after a member has failed"));
    }
    let loss = design.loss.spec.or(design.loss.field);
    if let Some(loss) = loss.filter(|loss| *loss > MIN_NOTED_LOSS && context.limits.max_loss.is_none()) {
        notes.push(format!(
            "rank {rank}: the chance of losing data in {} is {}; --max-loss excludes such designs",
            format_amount(design.loss.years, "year", "years"),
            format_value(loss, "fraction")
        ));
    }
    let part = context.parts.iter().find(|part| part.id == design.part && part.volume.is_none());
    let writes_per_day = part.and_then(|part| drive_writes_per_day(context.demand, design, part));
    if let Some(times) = writes_per_day.filter(|times| *times > MIN_NOTED_WRITES_PER_DAY) {
        notes.push(format!(
            "rank {rank}: at a constant load, each drive's capacity is written {} times a day; endurance is not \
             checked, so compare this with the data sheet of {}",
            format_significant(times),
            design.part
        ));
    }
    notes
}

/// Full writes per day of each flash drive, if all writes to parity are small; `None` for other drives.
pub fn drive_writes_per_day(demand: &Demand, design: &PlannedDesign, part: &DesignPart) -> Option<f64> {
    let is_flash = matches!(part.class, DriveClass::SataSsd | DriveClass::SasSsd | DriveClass::NvmeSsd);
    let level = ArrayLevel::parse(&design.level).filter(|_| is_flash)?;
    let copies = match level.info().form {
        LevelForm::Parity => 1.0 + f64::from(level.info().parities),
        _ => level.small_write_factor(u16::try_from(design.count).ok()?),
    };
    let bytes_per_s = demand.writes_per_s * demand.write_size_bytes * copies / f64::from(design.count.max(1));
    Some(bytes_per_s * 86_400.0 / part.capacity_bytes)
}

fn volume_notes(limits: &PlanLimits, answer: &PlanAnswer) -> Vec<String> {
    let mut notes = Vec::new();
    for offer in answer.designs.iter().filter_map(|design| limits.find_volume(&design.part)) {
        if let Some(reason) = &offer.unverified {
            notes.push(format!("the price of {} is second-hand: {reason}", offer.id));
        }
        if let Some(burst) = offer.burst {
            notes.push(format!(
                "{}: bursts to {} IOPS do not count, because they end",
                offer.id,
                format_significant(burst.iops)
            ));
        }
        if limits.instance.is_none() {
            let is_known = limits.prices.instances.iter().any(|row| row.provider == offer.provider);
            let advice = if is_known { "name it with --instance" } else { "no instance of this cloud is built in" };
            notes.push(format!(
                "{}: the instance that uses the volume often has lower limits; they are not considered; {advice}",
                offer.provider
            ));
        }
    }
    let caps = limits.instance_caps().ok().flatten();
    if let Some(caps) = caps.filter(|caps| is_outdated(&caps.date, &limits.today)) {
        notes.push(format!("the limits of {} are older than a year ({})", caps.id, caps.date));
    }
    if let Some(caps) = caps
        && let Some(reason) = &caps.unconfirmed
    {
        notes.push(format!("the limits of {} are not confirmed: {reason}", caps.id));
    }
    if let Some(caps) = caps
        && let Some(instance_burst) = caps.burst
    {
        notes.push(format!(
            "{} sustains {} IOPS and {} (these count), and {} and {} for 30 minutes a day",
            caps.id,
            format_significant(caps.baseline.iops),
            format_value(caps.baseline.mb_s * 1e6, "bytes_per_s"),
            format_significant(instance_burst.iops),
            format_value(instance_burst.mb_s * 1e6, "bytes_per_s")
        ));
    }
    notes
}
