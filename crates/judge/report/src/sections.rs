//! Sections of the page below the evidence. Each function returns the content of a
//! section, or an empty string if there is none.

use diskwright_base::units::format_count;
use diskwright_base::{Device, Note, Topology, units};
use diskwright_diagnosis::verdict::{
    Culprit, Episode, Exclusion, ProgramActivity, SetAsideFinding, Verdict, VerdictPhase,
};

use crate::chart_model::{self, Chart};
use crate::html::{HtmlReport, chart_figure, rare_key, sentence_case};
use crate::markup::{escape, escape_code};
use crate::time;
use crate::verdict_words;

/// Renders a table in a card. The first cell names the row; on a phone the title
/// of its column stands before each cell.
pub(crate) fn html_table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"card\"><table>\n");
    // without any title the row of titles is left out
    if titles.iter().any(|title| !title.is_empty()) {
        out.push_str("<thead><tr>");
        for title in titles {
            out.push_str(&format!("<th scope=\"col\">{}</th>", escape(title)));
        }
        out.push_str("</tr></thead>\n");
    }
    out.push_str("<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (index, (cell, title)) in row.iter().zip(titles).enumerate() {
            let class = match (index, *title) {
                (0, _) => " class=\"name\"",
                (_, "Size") => " class=\"number\"",
                _ => "",
            };
            let label =
                if index == 0 || title.is_empty() { String::new() } else { format!(" data-is=\"{}\"", escape(title)) };
            out.push_str(&format!("<td{class}{label}>{cell}</td>"));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

/// Renders the bottlenecks that were ruled out, and the findings that were set aside.
pub(crate) fn ruled_out_section(verdict: &Verdict) -> String {
    let mut out = String::new();
    if !verdict.ruled_out.is_empty() {
        let row = |r: &Exclusion| {
            vec![escape(&sentence_case(verdict_words::bottleneck_name(r.bottleneck))), escape_code(&r.because)]
        };
        let rows: Vec<Vec<String>> = verdict.ruled_out.iter().map(row).collect();
        out.push_str(&html_table(&["Suspect", "Why not"], &rows));
    }
    if !verdict.set_aside.is_empty() {
        out.push_str("<p>These rules held too, but another rule explains them better:</p>\n");
        let row = |a: &SetAsideFinding| {
            let instance = if a.instance.is_empty() { String::new() } else { format!(" ({})", escape(&a.instance)) };
            vec![format!("<span class=\"id\">{}</span>{instance}", escape(&a.rule)), escape_code(&a.because)]
        };
        let rows: Vec<Vec<String>> = verdict.set_aside.iter().map(row).collect();
        out.push_str(&html_table(&["Rule", "Set aside because"], &rows));
    }
    out
}

/// Renders the processes and cgroups that cause the bottleneck.
pub(crate) fn culprits_section(verdict: &Verdict) -> String {
    if verdict.culprits.is_empty() {
        return String::new();
    }
    let row = |c: &Culprit| {
        let pid = c.pid.map_or(String::new(), |pid| format!(" <span class=\"dim\">({pid})</span>"));
        let cgroup = if c.cgroup.is_empty() {
            String::new()
        } else {
            format!("<span class=\"id\">{}</span>", escape(&c.cgroup))
        };
        vec![format!("{}{pid}", escape(&c.name)), escape(&c.description), cgroup]
    };
    let mut out =
        html_table(&["Process", "What it does", "Cgroup"], &verdict.culprits.iter().map(row).collect::<Vec<_>>());
    for asked in &verdict.requesters {
        out.push_str(&format!("<p>{}</p>\n", escape(&verdict_words::requesters_text(asked))));
    }
    out
}

/// Renders the activity and waits of programs, if no bottleneck is blamed.
pub(crate) fn programs_section(verdict: &Verdict) -> String {
    if verdict.programs.is_empty() {
        return String::new();
    }
    let row = |p: &ProgramActivity| {
        let pid = format!(" <span class=\"dim\">({})</span>", p.pid);
        vec![format!("{}{pid}", escape(&p.name)), escape(&p.description), escape_code(&p.next_step)]
    };
    let rows: Vec<Vec<String>> = verdict.programs.iter().map(row).collect();
    html_table(&["Program", "What it does and waits for", "Where to look next"], &rows)
}

/// Renders the remedies in order.
pub(crate) fn advice_section(verdict: &Verdict) -> String {
    if verdict.advice.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"card\"><ol class=\"advice\">\n");
    for remedy in &verdict.advice {
        let modern = if remedy.modern.is_empty() { String::new() } else { format!(" {}", remedy.modern) };
        out.push_str(&format!(
            "<li><p>{}</p><p class=\"source\">{}</p></li>\n",
            escape_code(&(remedy.text.clone() + &modern)),
            escape(&remedy.source)
        ));
    }
    out.push_str("</ol></div>\n");
    out
}

/// Renders the verdict of each pack with its leading finding; disagreement is marked.
pub(crate) fn packs_section(verdicts: &[Verdict]) -> String {
    let Some((first, others)) = verdicts.split_first().filter(|(_, others)| !others.is_empty()) else {
        return String::new();
    };
    let differing = others.iter().filter(|v| v.bottleneck != first.bottleneck).count();
    let summary = match differing {
        0 => "All packs agree.".to_owned(),
        1 if others.len() == 1 => "The other pack disagrees.".to_owned(),
        n if n == others.len() => "All other packs disagree.".to_owned(),
        n => format!("{n} of the {} other packs {}.", others.len(), if n == 1 { "disagrees" } else { "disagree" }),
    };
    let row = |(index, v): (usize, &Verdict)| {
        let agreement = match (index, v.bottleneck == first.bottleneck) {
            (0, _) => String::new(),
            (_, true) => " <span class=\"agrees\">agrees</span>".into(),
            (_, false) => " <span class=\"differs\">differs</span>".into(),
        };
        let instance = if v.instance.is_empty() { String::new() } else { format!(" ({})", escape(&v.instance)) };
        let says = format!("{}{instance}{agreement}", escape(verdict_words::bottleneck_name(v.bottleneck)));
        let (because, source) = match v.findings.first() {
            Some(f) => {
                let than = verdict_words::comparison_words(f);
                let numbers = format!(
                    "{}, {than} {}",
                    units::format_value(f.value, &f.unit),
                    units::format_value(f.limit, &f.unit)
                );
                (format!("{} ({})", escape(&verdict_words::finding_title(f)), escape(&numbers)), escape(&f.source))
            }
            None => ("none of its rules fired".to_owned(), String::new()),
        };
        let title = format!("<span class=\"source\">{}</span>", escape(&v.pack_title));
        vec![format!("<span class=\"id\">{}</span> {title}", escape(&v.pack)), says, because, source]
    };
    let rows: Vec<Vec<String>> = verdicts.iter().enumerate().map(row).collect();
    format!("<p>{summary}</p>\n{}", html_table(&["Pack", "Says", "Because", "Source"], &rows))
}

/// Renders the episodes: bottlenecks that were too short to be the answer.
pub(crate) fn episodes_section(report: &HtmlReport, verdict: &Verdict) -> String {
    let item = |e: &Episode| {
        format!("<li>{}</li>\n", escape_code(&verdict_words::episode_text(e, verdict.window.seconds, &report.zone)))
    };
    let items: String = verdict.episodes.iter().map(item).collect();
    if items.is_empty() { String::new() } else { format!("<ul>\n{items}</ul>\n") }
}

/// Renders the bottlenecks over time, if the bottleneck changed.
pub(crate) fn phases_section(report: &HtmlReport, verdict: &Verdict) -> String {
    let item = |p: &VerdictPhase| format!("<li>{}</li>\n", escape_code(&verdict_words::phase_text(p, &report.zone)));
    let items: String = verdict.phases.iter().map(item).collect();
    if verdict.phases.len() < 2 { String::new() } else { format!("<ol>\n{items}</ol>\n") }
}

/// Renders the limits of the answer: gaps, missing data, rules that could not be judged.
pub(crate) fn trust_section(report: &HtmlReport, verdict: &Verdict) -> String {
    let mut items: Vec<String> = verdict.certainty_limits.iter().map(|w| escape_code(&sentence_case(w))).collect();
    // rules that lack the same counters share an item
    let mut lacking: Vec<(&[String], Vec<&str>)> = Vec::new();
    for unjudged in &verdict.unjudged {
        match lacking.iter_mut().find(|(missing, _)| *missing == unjudged.missing) {
            Some((_, rules)) => rules.push(&unjudged.rule),
            None => lacking.push((&unjudged.missing, vec![&unjudged.rule])),
        }
    }
    let id = |word: &str| format!("<span class=\"id\">{}</span>", escape(word));
    for (missing, rules) in lacking {
        let missing: Vec<String> = missing.iter().map(|m| id(m)).collect();
        let named: Vec<String> = rules.iter().map(|r| id(r)).collect();
        let noun = if rules.len() == 1 { "Rule" } else { "Rules" };
        items.push(format!("{noun} {} could not be judged; missing: {}.", named.join(", "), missing.join(", ")));
    }
    let missing = &verdict.missing;
    if !missing.instructions.is_empty() {
        let lines: Vec<String> =
            missing.instructions.iter().map(|line| format!("<li>{}</li>", escape_code(line))).collect();
        items.push(format!("To judge them next time, record what is missing:<ul>{}</ul>", lines.join("")));
    }
    items.extend(missing.unavailable.iter().map(|line| escape_code(&format!("Not available: {line}."))));
    for remark in &verdict.notes {
        let Some(kind) = verdict_words::remark_kind(&remark.kind) else { continue };
        if remark.kind == Note::UNSEEN {
            items.push(format!("{kind}: {}", escape_code(&remark.text)));
            continue;
        }
        let when = time::parse_rfc3339(&remark.time).map_or(remark.time.clone(), |t| report.zone.format_moment(t));
        let often = if remark.times > 1 { format!("first {when}, {} times", remark.times) } else { when };
        items.push(format!("{kind}: {} <span class=\"dim\">({})</span>", escape(&remark.text), escape(&often)));
    }
    if items.is_empty() {
        return String::new();
    }
    let items: Vec<String> = items.iter().map(|i| format!("<li>{i}</li>")).collect();
    format!("<div class=\"card\"><ul class=\"plain\">\n{}\n</ul></div>\n", items.join("\n"))
}

/// Renders all bookmarks, oldest first.
pub(crate) fn bookmarks_section(report: &HtmlReport) -> String {
    let row = |(number, n): (usize, &Note)| {
        vec![
            number.to_string(),
            format!("<time>{}</time>", escape(&report.zone.format_moment(n.time_ns))),
            escape(n.text()),
        ]
    };
    let rows: Vec<Vec<String>> = chart_model::all_bookmarks(&report.notes).into_iter().map(row).collect();
    if rows.is_empty() { String::new() } else { html_table(&["", "When", "What"], &rows) }
}

/// Renders the machine, its devices and filesystems.
pub(crate) fn machine_section(topology: Option<&Topology>) -> String {
    let Some(topology) = topology else { return String::new() };
    let mut facts = Vec::new();
    if !topology.kernel.is_empty() {
        facts.push(format!("Linux {}", topology.kernel));
    }
    if topology.processors > 0 {
        facts.push(format_count(topology.processors, "processor", "processors"));
    }
    if topology.memory_bytes > 0 {
        facts.push(format!("{} of memory", units::format_value(topology.memory_bytes as f64, "bytes")));
    }
    let mut out = String::new();
    if !facts.is_empty() {
        out.push_str(&format!("<p>{}.</p>\n", escape(&facts.join(", "))));
    }
    if !topology.devices.is_empty() {
        let rows: Vec<Vec<String>> = topology.devices.iter().map(|d| device_row(topology, d)).collect();
        out.push_str(&html_table(&["Device", "What it is", "Stands on", "Size", "Remarks"], &rows));
    }
    if !topology.filesystems.is_empty() {
        let row = |f: &diskwright_base::Filesystem| vec![escape(&f.mount), escape(&f.kind), escape(&f.device)];
        let rows: Vec<Vec<String>> = topology.filesystems.iter().map(row).collect();
        out.push_str(&html_table(&["Mounted at", "Filesystem", "On"], &rows));
    }
    out
}

fn device_row(topology: &Topology, device: &Device) -> Vec<String> {
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
    let stripe = device.stripe_bytes.map(|b| format!("stripe unit {} KiB", b / 1024));
    remarks.extend(stripe);
    if device.level.is_some() {
        remarks.push(format_count(topology.spindle_count(&device.name), "disk", "disks"));
    }
    let size = device.bytes.map_or(String::new(), |b| units::format_value(b as f64, "bytes"));
    let (below, remarks) = (device.below.join(", "), remarks.join("; "));
    vec![escape(&device.name), escape(&description), escape(&below), size, escape(&remarks)]
}

/// Renders the charts that belong to no finding.
pub(crate) fn charts_section(report: &HtmlReport, charts: &[&Chart]) -> String {
    if charts.is_empty() {
        return String::new();
    }
    let measured: Vec<&&Chart> = charts.iter().filter(|c| c.mean_span().is_some()).collect();
    let is_zero = |c: &Chart| c.full_span() == Some((0.0, 0.0));
    let mut out = String::from("<p>A line is the mean; the band behind a single line shows minimum to maximum.</p>\n");
    out.push_str("<div class=\"small\">\n");
    for (number, chart) in measured.iter().filter(|c| !is_zero(c)).enumerate() {
        let drawn = chart_figure(chart, report, &format!("c{number}"), &rare_key(chart));
        out.push_str(&format!("<div class=\"card\">{drawn}</div>\n"));
    }
    out.push_str("</div>\n");
    let still: Vec<&str> = measured.iter().filter(|c| is_zero(c)).map(|c| c.title.as_str()).collect();
    if !still.is_empty() {
        out.push_str(&format!("<p>Always 0: {}.</p>\n", escape(&still.join("; "))));
    }
    out
}
