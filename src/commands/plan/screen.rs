//! The answer of `plan` on a terminal: the list, the figures of each design, rejected designs, the frontier.

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::{format_amount, format_count, format_significant, format_value};
use diskwright_planner::answer::{HorizonFigures, PricePeriod, ResponseFigures};
use diskwright_planner::{PlanAnswer, PlanLimits, PlannedDesign};
use diskwright_report::{Align, Ink, Style, TextTable, terminal_curves, text};

use super::charts;

/// Rows of the frontier's chart.
const CHART_ROWS: usize = 12;
/// Mean response above which a design is slow if no limit was set, s: InfoStor 1999 counts the load that a subsystem
/// serves within 100 ms.
const SLOW_RESPONSE_S: f64 = 0.1;

/// Wraps a sentence to the terminal's width; further lines are indented by two more columns.
pub fn wrap_indented(sentence: &str, indent: usize, style: &Style) -> String {
    let lines = text::wrap(&style.clean_text(sentence), style.width.saturating_sub(indent + 2), 0);
    let blanks = |number: usize| " ".repeat(indent + 2 * usize::from(number > 0));
    lines.iter().enumerate().map(|(number, line)| format!("{}{line}\n", blanks(number))).collect()
}

/// Wraps a sentence and paints it.
pub fn wrap_painted(ink: Ink, sentence: &str, style: &Style) -> String {
    wrap_indented(sentence, 0, style).lines().map(|line| format!("{}\n", style.paint(ink, line))).collect()
}

/// Draws the screen: the recommendation, the list, then each design.
pub fn draw_plan(answer: &PlanAnswer, limits: &PlanLimits, style: &Style) -> String {
    let mut out = wrap_indented(&describe_demand(answer), 0, style);
    if !answer.feasible {
        let reason = answer.rejected.first().map_or("", |rejected| rejected.because.as_str());
        let sentence = format!("No design within the limits meets the demand. Closest: {reason}");
        out += &wrap_painted(Ink::Bad, &sentence, style);
        out += &draw_relaxations(answer, style);
    } else if let Some(design) = answer.designs.first() {
        out += &wrap_painted(Ink::Bold, &recommend_design(design, limits, answer.demand.response.is_some()), style);
    }
    out += &format!("\n{}", design_table(answer, style).render(style));
    for design in &answer.designs {
        out += &format!("\n{}", wrap_painted(Ink::Bold, &format!("{}. {}", design.rank, design_title(design)), style));
        for line in design_lines(design, limits) {
            out += &wrap_indented(&line, 3, style);
        }
    }
    out += &draw_rejections(answer, style);
    if !answer.break_even.is_empty() {
        out += "\n";
    }
    for point in &answer.break_even {
        out += &wrap_indented(&point.sentence, 0, style);
    }
    if let Some(chart) = charts::frontier_chart(answer) {
        out += &format!("\n{}", terminal_curves::draw_curves(&chart, style, CHART_ROWS));
    }
    if !answer.notes.is_empty() {
        out += "\n";
    }
    for note in &answer.notes {
        out += &wrap_painted(Ink::Dim, &format!("note: {note}"), style);
    }
    out + &format!("\n{} evaluated.\n", format_count(answer.searched, "design was", "designs were"))
}

/// Draws which requirement to relax, the smallest change first.
fn draw_relaxations(answer: &PlanAnswer, style: &Style) -> String {
    if answer.relax.is_empty() {
        return wrap_indented("Relaxing one requirement, or two together, gives no design.", 0, style);
    }
    let heading = match answer.relax.iter().any(|relaxation| relaxation.also.is_some()) {
        true => "No requirement alone is enough: relax two together, the smallest change first",
        false => "Relax one requirement, the smallest change first",
    };
    let mut out = format!("\n{}\n", style.paint(Ink::Bold, heading));
    for relaxation in &answer.relax {
        let also = relaxation.also.as_ref().map_or(String::new(), |also| format!(" {}", also.option));
        let option = relaxation.option.as_ref().map_or(String::new(), |option| format!(" [{option}{also}]"));
        out += &wrap_indented(&format!("{}{option}", relaxation.sentence), 3, style);
    }
    out
}

/// Draws rejected designs, the cheaper ones first.
fn draw_rejections(answer: &PlanAnswer, style: &Style) -> String {
    let (cheaper, others): (Vec<_>, Vec<_>) = answer.rejected.iter().partition(|r| r.cheaper == Some(true));
    let heading = if answer.feasible { "Other designs that fail" } else { "Why other designs fail" };
    let mut out = String::new();
    for (heading, rejected) in [("Cheaper, but insufficient", cheaper), (heading, others)] {
        if !rejected.is_empty() {
            out += &format!("\n{}\n", style.paint(Ink::Bold, heading));
        }
        for rejected in rejected {
            out += &wrap_indented(&format!("{}: {}", rejected.design, rejected.because), 3, style);
        }
    }
    out
}

/// Describes the recommended design and its consequences.
fn recommend_design(design: &PlannedDesign, limits: &PlanLimits, has_response_target: bool) -> String {
    let cost_text = |cost: f64| format!(", {cost:.0} {} over {}", design.currency, format_years(limits.years));
    let cost = design.cost.filter(|_| design.price_period == PricePeriod::Month).map_or(String::new(), cost_text);
    let price = match design.price {
        Some(_) => format!("{}{cost}", format_design_price(design)),
        None => "its price is unknown".into(),
    };
    let label = if design.cost.is_some() { "Cheapest design" } else { "First design" };
    let is_met = has_response_target || design.response_s.mean <= SLOW_RESPONSE_S;
    let meets = if is_met { "that meets the demand" } else { "that sustains the load" };
    format!(
        "{label} {meets}: {} ({price}); mean response {}, sustains {}.{}",
        design_title(design),
        format_value(design.response_s.mean, "s"),
        design.describe_headroom(),
        if has_response_target { "" } else { no_target_text(design) }
    )
}

/// Says that no limit of the response was set, and whether the design is slow.
fn no_target_text(design: &PlannedDesign) -> &'static str {
    match design.response_s.mean > SLOW_RESPONSE_S {
        true => " Its response is slow (more than 100 ms). No limit was set (--response); larger designs are faster.",
        false => " No limit of the response was set (--response).",
    }
}

/// Describes the demand in one line.
pub fn describe_demand(answer: &PlanAnswer) -> String {
    let demand = &answer.demand;
    let mut description = format!(
        "{} reads/s and {} writes/s",
        format_significant(demand.reads_per_s),
        format_significant(demand.writes_per_s)
    );
    let [read, write] = [demand.read_size_bytes, demand.write_size_bytes].map(|bytes| format_value(bytes, "bytes"));
    description += &match (demand.reads_per_s > 0.0 && demand.writes_per_s > 0.0, read == write) {
        (true, false) => format!(" of {read} and {write}"),
        _ => format!(" of {}", format_value(demand.size_bytes(), "bytes")),
    };
    description += &match demand.capacity_bytes {
        Some(bytes) => format!(", {}", ByteSize::capacity(bytes)),
        None => ", no capacity given".into(),
    };
    if let Some(target) = demand.response {
        description += &format!(", {} response {}", target.statistic.name(), format_value(target.target_s, "s"));
    }
    description
}

/// `raid5 of 10 x compaq-4gb`.
pub fn design_title(design: &PlannedDesign) -> String {
    let part = if design.price_period == PricePeriod::Month { &design.name } else { &design.part };
    let spares = match design.spares {
        0 => String::new(),
        n => format!(" + {n} spare{}", if n == 1 { "" } else { "s" }),
    };
    let path = design.controller.as_ref().map_or(String::new(), |controller| {
        let cache = if controller.write_back_bytes.is_some() { ", write-back" } else { "" };
        let times = if controller.count == 1 { String::new() } else { format!("{} x ", controller.count) };
        format!(" on {times}{}{cache}", controller.id)
    });
    match design.count {
        1 => format!("{part}{path}"),
        count => format!("{} of {count} x {part}{spares}{path}", design.level),
    }
}

/// Formats the price of a design, or that it is unknown.
pub fn format_design_price(design: &PlannedDesign) -> String {
    format_price(design.price, design.price_period, &design.currency)
}

/// Formats any price.
pub fn format_price(price: Option<f64>, period: PricePeriod, currency: &str) -> String {
    match (price, period) {
        (Some(price), PricePeriod::Once) => format!("{price:.0} {currency}"),
        (Some(price), PricePeriod::Month) => format!("{price:.2} {currency} per month"),
        (None, _) => "unknown".into(),
    }
}

/// Width from which the list shows all figures.
const WIDE_TABLE_COLUMNS: usize = 110;

fn design_table(answer: &PlanAnswer, style: &Style) -> TextTable {
    let is_wide = style.width >= WIDE_TABLE_COLUMNS;
    let mut table = TextTable::new().with_column("", Align::Right).with_text_column("design");
    let titles = [("usable", true), ("mean", false), ("95 %", true), ("99 %", false), ("busiest", true)];
    let titles = titles.into_iter().chain([("headroom", false), ("price", false)]);
    for title in titles.filter(|(_, is_extra)| is_wide || !is_extra).map(|(title, _)| title) {
        table = table.with_column(title, Align::Right);
    }
    for design in &answer.designs {
        let ResponseFigures { mean, p95, p99 } = design.response_s;
        let busiest = design.utilization.first().map_or(f64::NAN, |part| part.utilization);
        let price = if is_wide {
            format_design_price(design)
        } else {
            format_design_price(design).replace(" per month", "/month")
        };
        let cells = [
            (design.rank.to_string(), false),
            (design_title(design), false),
            (ByteSize::capacity(design.usable_bytes).to_string(), true),
            (format_value(mean, "s"), false),
            (format_value(p95, "s"), true),
            (format_value(p99, "s"), false),
            (format_value(busiest, "fraction"), true),
            (design.format_headroom(), false),
            (price, false),
        ];
        table.add_row(cells.into_iter().filter(|(_, is_extra)| is_wide || !is_extra).map(|(cell, _)| cell));
    }
    table
}

/// Remarks on a design.
fn design_lines(design: &PlannedDesign, limits: &PlanLimits) -> Vec<String> {
    let mut lines = vec![design.why.clone()];
    let busy: Vec<String> = design
        .utilization
        .iter()
        .take(3)
        .map(|part| format!("{} {}", part.part, format_value(part.utilization, "fraction")))
        .collect();
    lines.push(format!("saturates first: {}; busy: {}", design.limit, busy.join(", ")));
    lines.push(format!(
        "each member: {} of the {} that it sustains; {} in flight",
        format_value(design.member_load_per_s, "per_s"),
        format_value(design.member_sustains_per_s, "per_s"),
        format_value(design.queue_per_spindle, "count")
    ));
    lines.extend(design.stripe_unit_bytes.map(|bytes| format!("stripe unit: {}", format_value(bytes as f64, "bytes"))));
    lines.extend(surplus_line(design, limits));
    if let (true, Some(deviation)) = (design.simulated, design.deviation) {
        let disagreement = if design.agrees == Some(true) { "" } else { ": they disagree" };
        let difference = match deviation {
            share if share.abs() < 5e-4 => "the analysis agrees within 0.1 %".into(),
            share => {
                let direction = if share > 0.0 { "more" } else { "less" };
                format!("the analysis says {:.1} % {direction}", share.abs() * 100.0)
            }
        };
        lines.push(format!("simulated; {difference}{disagreement}"));
    }
    let describe_response = |response: Option<ResponseFigures>| {
        response
            .map_or("it cannot keep up".into(), |figures| format!("mean response {}", format_value(figures.mean, "s")))
    };
    if let Some(best) = design.rebuild_s {
        let loaded = design.rebuild_loaded_s.map_or("unknown".into(), format_hours);
        let degraded = describe_response(design.degraded_response_s);
        // without any rebuild traffic, too little was simulated
        let rebuilding = design
            .rebuild_loaded_s
            .map_or_else(|| "unknown".to_owned(), |_| describe_response(design.rebuilding_response_s));
        lines.push(format!("after a member fails: {degraded}; during the rebuild: {rebuilding}"));
        let floor = design.rebuild_floor_s.map_or("unknown".into(), format_hours);
        lines.push(format!(
            "rebuild: {} at best, {loaded} under the demand, {floor} at 1 MB/s, the least that Linux's md keeps to",
            format_hours(best)
        ));
    }
    lines.push(loss_line(design));
    let (cost, watts) = (design.cost, design.watts);
    let cost = cost.map_or("unknown".to_owned(), |cost| format!("{cost:.0} {}", design.currency));
    let watts = watts.map_or("unknown".to_owned(), |watts| format!("{} W", format_significant(watts)));
    let date = match (&design.price_date, &design.price_source) {
        (Some(date), Some(source)) => format!(" (price of {date}: {source})"),
        _ => String::new(),
    };
    lines.push(format!("costs {cost} over {}{date}; power {watts}", format_years(limits.years)));
    lines.extend(hardware_lines(design));
    lines.extend(design.full_after_days.map(format_fill_time));
    lines.extend(design.horizon.as_ref().map(|figures| horizon_line(design, figures)));
    lines
}

/// Line about members beyond those needed, if they are recommended.
fn surplus_line(design: &PlannedDesign, limits: &PlanLimits) -> Option<String> {
    let (count, recommended, limit) = (design.count, design.recommended_count, u32::from(limits.max_drives));
    let beyond = if recommended + design.spares > limit {
        format!(", more than --max-drives {limit} allows")
    } else {
        String::new()
    };
    let surplus = format_value(limits.surplus, "fraction");
    (recommended > count)
        .then(|| format!("{count} are needed, {recommended} recommended ({surplus} for surges){beyond}"))
}

/// Lines about kept drives, purchases, unknown prices, and controllers.
fn hardware_lines(design: &PlannedDesign) -> Vec<String> {
    let mut lines = Vec::new();
    if design.kept > 0 {
        let items: Vec<String> = design.bought.iter().map(|item| format!("{} x {}", item.count, item.item)).collect();
        let bought = if items.is_empty() { "nothing to buy".into() } else { format!("bought: {}", items.join(", ")) };
        let kept = format_count(design.kept, "existing drive is", "existing drives are");
        lines.push(format!("{kept} kept; {bought}"));
    }
    if design.price.is_none() {
        let unknown: Vec<&str> =
            design.bought.iter().filter(|item| item.price.is_none()).map(|item| item.item.as_str()).collect();
        let known_price =
            design.known_price.map(|price| format!("; everything else costs {price:.0} {}", design.currency));
        lines.push(format!("price unknown: {}{}", unknown.join(", "), known_price.unwrap_or_default()));
    }
    if let Some(controller) = &design.controller {
        let cache =
            controller.write_back_bytes.map(|bytes| format!("; {} support writes", format_value(bytes, "bytes")));
        lines.push(format!(
            "{} x {}: {} channel{}, {} drive{} on the fullest{}",
            controller.count,
            controller.name,
            controller.channels,
            if controller.channels == 1 { "" } else { "s" },
            controller.drives_per_channel,
            if controller.drives_per_channel == 1 { "" } else { "s" },
            cache.unwrap_or_default()
        ));
    }
    lines
}

fn format_fill_time(days: f64) -> String {
    match days {
        days if days < 1.0 => "full at once: at this growth, its capacity lasts for less than a day".to_owned(),
        days => format!("full in {} at this growth", format_amount(days, "day", "days")),
    }
}

fn horizon_line(design: &PlannedDesign, figures: &HorizonFigures) -> String {
    let free = match figures.free_bytes {
        free if free < 0.0 => format!("{} too little", ByteSize::capacity(-free)),
        free => format!("{} free", ByteSize::capacity(free)),
    };
    let upper = match figures.holds_upper_end {
        Some(false) => "; growth at its upper bound would not fit",
        Some(true) => "; growth at its upper bound also fits",
        None => "",
    };
    let load = match design.sustains_any_load() {
        true => format!("; {}x the load, if load grows with the data", format_significant(figures.headroom)),
        false => String::new(),
    };
    format!(
        "in {}: {} needed, {free}{upper}{load}",
        format_amount(figures.days, "day", "days"),
        ByteSize::capacity(figures.capacity_bytes),
    )
}

fn format_years(number: f64) -> String {
    format_amount(number, "year", "years")
}

fn format_hours(seconds: f64) -> String {
    match seconds / 3600.0 {
        hours if hours >= 48.0 => format!("{} days", format_significant(hours / 24.0)),
        hours => format!("{} h", format_significant(hours)),
    }
}

fn loss_line(design: &PlannedDesign) -> String {
    let chance = |loss: f64| if loss > 0.0 { format!("{loss:.1e}") } else { "0".to_owned() };
    let describe_loss = |loss: Option<f64>| loss.map_or("unknown".to_owned(), chance);
    let loss = &design.loss;
    let simulated = loss.drawn.map_or(String::new(), |draws| {
        let (low, high) = draws.loss_interval;
        format!("; {} random draws from the data sheet: {} to {}", draws.missions, chance(low), chance(high))
    });
    format!(
        "chance of losing data in {}: data sheet {}, field studies {}, correlated failures {}{simulated}",
        format_years(loss.years),
        describe_loss(loss.spec),
        describe_loss(loss.field),
        describe_loss(loss.correlated)
    )
}
