//! Sections of the page below the evidence. Each function returns the content of a
//! section, or empty markup if there is none.

mod captured;
mod databases;
mod volumes;

use diskwright_base::byte_size::ByteSize;
use diskwright_base::units::format_count;
use diskwright_base::{Device, Filesystem, Note, Topology};
use diskwright_diagnosis::Advice;
use diskwright_diagnosis::verdict::{
    Culprit, Episode, Exclusion, Finding, ProgramActivity, SetAsideFinding, Verdict, VerdictPhase,
};
use maud::{Markup, Render, html};

use crate::chart_model::{self, Chart};
use crate::html::{HtmlReport, chart_figure, rare_key, sentence_case};
use crate::identity::place_text;
use crate::markup::{mark_code, mark_id};
use crate::time;
use crate::verdict_words;

pub(crate) use captured::captures_section;
pub(crate) use databases::databases_section;
pub(crate) use volumes::volumes_section;

/// Renders a table in a card. The first cell names the row; on a phone the title
/// of its column stands before each cell.
pub(crate) fn html_table(titles: &[&str], rows: &[Vec<Markup>]) -> Markup {
    // without any title the row of titles is left out
    let has_titles = titles.iter().any(|title| !title.is_empty());
    html! {
        "\n"
        div.card {
            table {
                @if has_titles {
                    thead { tr { @for title in titles { th scope="col" { (title) } } } }
                }
                tbody {
                    @for row in rows {
                        "\n"
                        tr {
                            @for (index, (cell, title)) in row.iter().zip(titles).enumerate() {
                                td class=[cell_class(index, title)] data-is=[cell_label(index, title)] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell_class(index: usize, title: &str) -> Option<&'static str> {
    match (index, title) {
        (0, _) => Some("name"),
        (_, "Size") => Some("number"),
        _ => None,
    }
}

fn cell_label(index: usize, title: &str) -> Option<&str> {
    (index > 0 && !title.is_empty()).then_some(title)
}

/// Renders the bottlenecks that were ruled out, and the findings that were set aside.
pub(crate) fn ruled_out_section(verdict: &Verdict) -> Markup {
    let exclusion_row = |r: &Exclusion| {
        vec![sentence_case(verdict_words::bottleneck_name(r.bottleneck)).render(), mark_code(&r.because)]
    };
    let set_aside_row = |a: &SetAsideFinding| {
        let rule = html! { (mark_id(&a.rule)) @if !a.instance.is_empty() { " (" (a.instance) ")" } };
        vec![rule, mark_code(&a.because)]
    };
    let suspects: Vec<Vec<Markup>> = verdict.ruled_out.iter().map(exclusion_row).collect();
    let rules: Vec<Vec<Markup>> = verdict.set_aside.iter().map(set_aside_row).collect();
    html! {
        @if !suspects.is_empty() {
            (html_table(&["Suspect", "Why not"], &suspects))
        }
        @if !rules.is_empty() {
            p { "These rules held too, but another rule explains them better:" }
            (html_table(&["Rule", "Set aside because"], &rules))
        }
    }
}

/// Renders the processes and cgroups that cause the bottleneck.
pub(crate) fn culprits_section(verdict: &Verdict) -> Markup {
    if verdict.culprits.is_empty() && verdict.unlisted.is_empty() {
        return Markup::default();
    }
    let row = |c: &Culprit| {
        let name = html! {
            (c.name) @if let Some(pid) = c.pid { " " span.dim { "(" (pid) ")" } }
            @if let Some(command_line) = &c.command_line { div { code { (command_line) } } }
            @if let Some(user) = &c.user { div { span.dim { "user " (user) } } }
        };
        let place = place_text(&c.place);
        let cgroup = html! {
            @if !place.is_empty() { div { (place) } }
            @if !c.cgroup.is_empty() { (mark_id(&c.cgroup)) }
        };
        vec![name, c.description.render(), cgroup]
    };
    let table = |culprits: &[Culprit]| {
        let rows: Vec<Vec<Markup>> = culprits.iter().map(row).collect();
        html_table(&["Process", "What it does", "Where it runs"], &rows)
    };
    html! {
        @if verdict.culprits.is_empty() {
        } @else if verdict.bottlenecks.len() < 2 {
            (table(&verdict.culprits))
        } @else {
            @for listed in verdict.bottlenecks.iter().filter(|listed| !listed.culprits.is_empty()) {
                h3 { (sentence_case(&verdict_words::bottleneck_title(listed.bottleneck, &listed.instance))) }
                (table(&listed.culprits))
            }
        }
        @for words in &verdict.unlisted { p { (sentence_case(words)) "." } }
        @for requester in &verdict.requesters { p { (verdict_words::requesters_text(requester)) } }
    }
}

/// Renders the activity and waits of programs, if no bottleneck is blamed.
pub(crate) fn programs_section(verdict: &Verdict) -> Markup {
    if verdict.programs.is_empty() {
        return Markup::default();
    }
    let row = |p: &ProgramActivity| {
        let name = html! { (p.name) " " span.dim { "(" (p.pid) ")" } };
        vec![name, p.description.render(), mark_code(&p.next_step)]
    };
    let rows: Vec<Vec<Markup>> = verdict.programs.iter().map(row).collect();
    html_table(&["Program", "What it does and waits for", "Where to look next"], &rows)
}

/// Renders the remedies in order.
pub(crate) fn advice_section(verdict: &Verdict) -> Markup {
    if verdict.advice.is_empty() {
        return Markup::default();
    }
    let words = |remedy: &Advice| match remedy.modern.as_str() {
        "" => remedy.sentence(),
        modern => format!("{} {modern}", remedy.text),
    };
    html! {
        div.card {
            ol.advice {
                @for remedy in &verdict.advice {
                    "\n"
                    li {
                        p { (mark_code(&words(remedy))) }
                        p.source { (remedy.source) }
                    }
                }
            }
        }
    }
}

/// Renders the verdict of each pack with its leading finding; disagreement is marked.
pub(crate) fn packs_section(verdicts: &[Verdict]) -> Markup {
    let Some((first, others)) = verdicts.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Markup::default();
    };
    let disagreeing = others.iter().filter(|v| v.bottleneck != first.bottleneck).count();
    let summary = match disagreeing {
        0 => "All packs agree.".to_owned(),
        1 if others.len() == 1 => "The other pack disagrees.".to_owned(),
        n if n == others.len() => "All other packs disagree.".to_owned(),
        n => format!("{n} of the {} other packs {}.", others.len(), if n == 1 { "disagrees" } else { "disagree" }),
    };
    let rows: Vec<Vec<Markup>> = verdicts.iter().enumerate().map(|(index, v)| pack_row(index, v, first)).collect();
    html! {
        p { (summary) }
        (html_table(&["Pack", "Says", "Because", "Source"], &rows))
    }
}

/// Renders the row of one pack; all but the one at index 0 are compared with `first`.
fn pack_row(index: usize, verdict: &Verdict, first: &Verdict) -> Vec<Markup> {
    let agreement = match (index, verdict.bottleneck == first.bottleneck) {
        (0, _) => None,
        (_, true) => Some("agrees"),
        (_, false) => Some("differs"),
    };
    let numbers = |f: &Finding| {
        let than = verdict_words::comparison_words(f);
        format!("{}, {than} {}", f.format_value(f.value), f.format_value(f.limit))
    };
    let finding = verdict.findings.first();
    let says = html! {
        (verdict_words::bottleneck_name(verdict.bottleneck))
        @if !verdict.instance.is_empty() { " (" (verdict.instance) ")" }
        @if let Some(word) = agreement { " " span class=(word) { (word) } }
    };
    let because = html! {
        @match finding {
            Some(f) => { (verdict_words::finding_title(f)) " (" (numbers(f)) ")" },
            None => "none of its rules fired",
        }
    };
    let pack = html! { (mark_id(&verdict.pack)) " " span.source { (verdict.pack_title) } };
    vec![pack, says, because, finding.map_or("", |f| f.source.as_str()).render()]
}

/// Renders the episodes: bottlenecks that were too short to be the answer.
pub(crate) fn episodes_section(report: &HtmlReport, verdict: &Verdict) -> Markup {
    let words = |e: &Episode| verdict_words::episode_text(e, verdict.window.seconds, &report.zone);
    html! {
        @if !verdict.episodes.is_empty() {
            ul { @for episode in &verdict.episodes { li { (mark_code(&words(episode))) } } }
        }
    }
}

/// Renders the bottlenecks over time, if the bottleneck changed.
pub(crate) fn phases_section(report: &HtmlReport, verdict: &Verdict) -> Markup {
    let words = |p: &VerdictPhase| verdict_words::phase_text(p, &report.zone);
    html! {
        @if verdict.phases.len() > 1 {
            ol { @for phase in &verdict.phases { li { (mark_code(&words(phase))) } } }
        }
    }
}

/// Renders the limits of the answer: gaps, missing data, rules that could not be judged.
pub(crate) fn trust_section(report: &HtmlReport, verdict: &Verdict) -> Markup {
    let mut items: Vec<Markup> = verdict.certainty_limits.iter().map(|w| mark_code(&sentence_case(w))).collect();
    items.extend(verdict.send_next.iter().map(|next| mark_code(&verdict_words::next_command_text(next))));
    items.extend(unjudged_items(verdict));
    let missing = &verdict.missing;
    if !missing.instructions.is_empty() {
        items.push(html! {
            "To judge them next time, record what is missing:"
            ul { @for line in &missing.instructions { li { (mark_code(line)) } } }
        });
    }
    items.extend(missing.unavailable.iter().map(|line| mark_code(&format!("Not available: {line}."))));
    for remark in &verdict.notes {
        let Some(kind) = verdict_words::remark_kind(&remark.kind) else { continue };
        if remark.kind == Note::UNSEEN {
            items.push(html! { (kind) ": " (mark_code(&remark.text)) });
            continue;
        }
        let when = time::parse_rfc3339(&remark.time).map_or(remark.time.clone(), |t| report.zone.format_moment(t));
        let times_text = if remark.times > 1 { format!("first {when}, {} times", remark.times) } else { when };
        items.push(html! { (kind) ": " (remark.text) " " span.dim { "(" (times_text) ")" } });
    }
    html! {
        @if !items.is_empty() {
            div.card {
                ul.plain { @for item in &items { "\n" li { (item) } } }
            }
        }
    }
}

/// Names the rules that could not be judged; those that lack the same counters share an item.
fn unjudged_items(verdict: &Verdict) -> Vec<Markup> {
    let mut groups: Vec<(&[String], Vec<&str>)> = Vec::new();
    for unjudged in &verdict.unjudged {
        match groups.iter_mut().find(|(missing, _)| *missing == unjudged.missing) {
            Some((_, rules)) => rules.push(&unjudged.rule),
            None => groups.push((&unjudged.missing, vec![&unjudged.rule])),
        }
    }
    let item = |(missing, rules): (&[String], Vec<&str>)| {
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        html! {
            @if rules.len() == 1 { "Rule " } @else { "Rules " }
            (id_list(&rules)) " could not be judged; missing: " (id_list(&missing)) "."
        }
    };
    groups.into_iter().map(item).collect()
}

fn id_list(names: &[&str]) -> Markup {
    html! {
        @for (index, name) in names.iter().enumerate() {
            @if index > 0 { ", " }
            (mark_id(name))
        }
    }
}

/// Renders all bookmarks, oldest first.
pub(crate) fn bookmarks_section(report: &HtmlReport) -> Markup {
    let row = |(number, n): (usize, &Note)| {
        vec![number.render(), html! { time { (report.zone.format_moment(n.time_ns)) } }, n.text().render()]
    };
    let rows: Vec<Vec<Markup>> = chart_model::all_bookmarks(&report.notes).into_iter().map(row).collect();
    if rows.is_empty() { Markup::default() } else { html_table(&["", "When", "What"], &rows) }
}

/// Renders the machine, its devices and filesystems.
pub(crate) fn machine_section(topology: Option<&Topology>) -> Markup {
    let Some(topology) = topology else { return Markup::default() };
    let mut facts = Vec::new();
    if !topology.kernel.is_empty() {
        facts.push(format!("Linux {}", topology.kernel));
    }
    if topology.processors > 0 {
        facts.push(format_count(topology.processors, "processor", "processors"));
    }
    if topology.memory_bytes > 0 {
        facts.push(format!("{} of memory", ByteSize::memory(topology.memory_bytes as f64)));
    }
    let filesystem_row = |f: &Filesystem| [&f.mount, &f.kind, &f.device].map(|word| word.render()).to_vec();
    let devices: Vec<Vec<Markup>> = topology.devices.iter().map(|d| device_row(topology, d)).collect();
    let filesystems: Vec<Vec<Markup>> = topology.filesystems.iter().map(filesystem_row).collect();
    html! {
        @if !facts.is_empty() {
            p { (facts.join(", ")) "." }
        }
        @if !devices.is_empty() {
            (html_table(&["Device", "What it is", "Stands on", "Size", "Remarks"], &devices))
        }
        @if !filesystems.is_empty() {
            (html_table(&["Mounted at", "Filesystem", "On"], &filesystems))
        }
    }
}

fn device_row(topology: &Topology, device: &Device) -> Vec<Markup> {
    use diskwright_base::{DeviceClass, DeviceKind};
    let kind = match device.kind {
        DeviceKind::Disk => "disk",
        DeviceKind::Partition => "partition",
        DeviceKind::Md => "software array",
        DeviceKind::Dm => "mapped device",
        DeviceKind::Loop => "loop device",
        DeviceKind::Zram => "compressed memory",
        DeviceKind::Multipath => "multipath",
        DeviceKind::Btrfs => "btrfs volume",
        DeviceKind::Zfs => "ZFS pool",
    };
    let class = match device.class {
        DeviceClass::Rotational => "rotational",
        DeviceClass::Flash => "flash",
        DeviceClass::Nvme => "NVMe",
        DeviceClass::Virtual => "virtual",
        DeviceClass::Network => "network",
        DeviceClass::Memory => "memory",
        DeviceClass::Unknown => "",
    };
    let description = match device.level {
        Some(level) => format!("{kind}, {}", level.name()),
        None if device.below.is_empty() && !class.is_empty() => format!("{class} {kind}"),
        None => kind.to_owned(),
    };
    let mut remarks: Vec<String> = Vec::new();
    remarks.extend(device.model.clone());
    remarks.extend(device.backing.clone());
    if device.missing > 0 {
        remarks.push(format!("{} missing", format_count(device.missing, "member", "members")));
    }
    remarks.extend(device.background.as_ref().map(|b| format!("{b} is running")));
    remarks.extend(device.write_cache.as_ref().map(|w| format!("cache: {w}")));
    remarks.extend(device.scheduler.as_ref().map(|s| format!("scheduler: {s}")));
    let stripe = device.stripe_bytes.map(|b| format!("stripe unit {}", ByteSize::memory(b as f64)));
    remarks.extend(stripe);
    if device.level.is_some() {
        remarks.push(format_count(topology.spindle_count(&device.name), "disk", "disks"));
    }
    let size = device.bytes.map_or(String::new(), |b| ByteSize::capacity(b as f64).to_string());
    let (below, remarks) = (device.below.join(", "), remarks.join("; "));
    [&device.name, &description, &below, &size, &remarks].map(|word| word.render()).to_vec()
}

/// Renders the charts that belong to no finding.
pub(crate) fn charts_section(report: &HtmlReport, charts: &[&Chart]) -> Markup {
    if charts.is_empty() {
        return Markup::default();
    }
    let measured: Vec<&Chart> = charts.iter().copied().filter(|c| c.mean_span().is_some()).collect();
    let (zero_charts, other_charts): (Vec<&Chart>, Vec<&Chart>) =
        measured.into_iter().partition(|c| c.full_span() == Some((0.0, 0.0)));
    let titles: Vec<&str> = zero_charts.iter().map(|c| c.title.as_str()).collect();
    let palette = report.choose_palette();
    html! {
        p { "A line is the mean; the band behind a single line shows minimum to maximum." }
        div.small {
            @for (number, chart) in other_charts.into_iter().enumerate() {
                div.card { (chart_figure(chart, report, &palette, &format!("c{number}"), &rare_key(chart))) }
            }
        }
        @if !titles.is_empty() {
            p { "Always 0: " (titles.join("; ")) "." }
        }
    }
}
