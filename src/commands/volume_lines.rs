//! Cloud volumes and their instance in words, for `why` and `plan --from`.

use diskwright_base::units::{format_count, format_significant, format_value};
use diskwright_diagnosis::Verdict;
use diskwright_planner::prices::PriceList;
use diskwright_planner::prices::unused::{ProvisionedVolume, UnusedProvision};
use diskwright_planner::series::space::SpaceSummary;
use diskwright_report::text::wrap;
use diskwright_report::{Ink, Style};

/// Draws how near volumes and the instance are to their limits, with a heading; empty without any.
pub fn draw_volumes(verdict: &Verdict, style: &Style) -> String {
    let volumes = verdict.volumes.iter().map(|volume| (&volume.sentence, &volume.told_by, &volume.unconfirmed));
    let instance = verdict.cloud_instance.iter().map(|known| (&known.sentence, &known.told_by, &known.unconfirmed));
    let lines = volumes.chain(instance).map(|(sentence, told_by, unconfirmed)| {
        let doubt = unconfirmed.as_ref().map_or(String::new(), |because| format!("; not confirmed: {because}"));
        format!("{sentence} (type by {told_by}{doubt})")
    });
    draw_section("Cloud volumes", lines, style)
}

/// Draws sentences with a heading; empty without any.
fn draw_section(heading: &str, sentences: impl Iterator<Item = String>, style: &Style) -> String {
    let columns = style.width.saturating_sub(4);
    let wrapped = |text: String| wrap(&style.clean_text(&text), columns, 0).join("\n    ");
    let lines: String = sentences.map(|sentence| format!("  {}\n", wrapped(sentence))).collect();
    if lines.is_empty() { lines } else { format!("\n{}\n{lines}", style.paint(Ink::Bold, heading)) }
}

/// Compares what is provisioned of the volumes of a window with what was used.
pub fn find_unused(verdict: &Verdict, space: &SpaceSummary, prices: &PriceList) -> Vec<UnusedProvision> {
    let used_bytes = |device: &str| {
        // a filesystem over several devices fills none of them by itself
        let mut on_device = space.filesystems.iter().filter(|f| f.fronts.as_slice() == [device]).peekable();
        on_device.peek()?;
        Some(on_device.map(|filesystem| filesystem.used_bytes).sum())
    };
    let compare = |volume: &diskwright_diagnosis::verdict::VolumeUse| {
        prices.unused_provision(&ProvisionedVolume {
            device: volume.device.clone(),
            type_id: volume.type_id.clone(),
            size_bytes: volume.size_bytes.map(|bytes| bytes as f64),
            requests_per_s: volume.requests.limit_per_s,
            bytes_per_s: volume.bytes.limit_per_s,
            max_requests_per_s: volume.requests.max_per_s,
            max_bytes_per_s: volume.bytes.max_per_s,
            used_bytes: used_bytes(&volume.device),
        })
    };
    verdict.volumes.iter().filter(|volume| volume.requests.mean_per_s.is_some()).map(compare).collect()
}

/// Draws what is provisioned and was never used, with a heading; empty without any. `interval_s` is the length of a
/// tick.
pub fn draw_unused(unused: &[UnusedProvision], interval_s: f64, style: &Style) -> String {
    let mut sentences: Vec<String> = unused.iter().map(describe_unused).collect();
    if !sentences.is_empty() {
        let interval = format_value(interval_s, "s");
        sentences.push(format!("Highest rates are means over ticks of {interval}; shorter peaks are not seen."));
    }
    draw_section("Provisioned and never used", sentences.into_iter(), style)
}

fn describe_unused(unused: &UnusedProvision) -> String {
    let requests = |per_s: f64| format_count(per_s.round() as u64, "request/s", "requests/s");
    let bytes = |per_s: f64| format_value(per_s, "bytes_per_s");
    let mut text = format!(
        "{} ({}): at most {} of its {} and {} of its {} were used",
        unused.device,
        unused.type_id,
        format_significant(unused.max_requests_per_s),
        requests(unused.requests_per_s),
        bytes(unused.max_bytes_per_s),
        bytes(unused.bytes_per_s),
    );
    let money = |amount: f64| format!("{amount:.2} {} a month", unused.currency.as_deref().unwrap_or_default());
    match unused.unused_month {
        Some(month) if month > 0.0 => {
            let parts = [
                (unused.unused_requests_per_s, requests(unused.unused_requests_per_s)),
                (unused.unused_bytes_per_s, bytes(unused.unused_bytes_per_s)),
            ];
            let parts: Vec<String> =
                parts.into_iter().filter(|(value, _)| *value > 0.0).map(|(_, text)| text).collect();
            text += &format!("; {} were bought and never used: {}", parts.join(" and "), money(month));
        }
        Some(_) => text += "; it has no more than comes with it or was used",
        None => {}
    }
    if let Some(month) = unused.unused_capacity_month.filter(|month| *month > 0.0) {
        text += &format!("; the space that is not in use costs {}, but a volume cannot shrink", money(month));
    }
    if let Some(month) = unused.month {
        text += &format!("; all of it costs {}", money(month));
    }
    if let Some((region, date)) = unused.region.as_ref().zip(unused.price_date.as_ref()) {
        text += &format!(" ({region}, prices of {date})");
    }
    match &unused.because {
        Some(because) => format!("{text}; {because}."),
        None => text + ".",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskwright_planner::prices::built_in_prices;

    #[test]
    fn money_is_named_with_region_and_day() {
        let idle = ProvisionedVolume {
            device: "nvme1n1".into(),
            type_id: "aws-gp3".into(),
            size_bytes: Some(500.0 * 1_073_741_824.0),
            requests_per_s: 16_000.0,
            bytes_per_s: 1000.0 * 1_048_576.0,
            max_requests_per_s: 27.2,
            max_bytes_per_s: 1e6,
            used_bytes: None,
        };
        let text = describe_unused(&built_in_prices().unused_provision(&idle));
        // 13,000 x 0.005 + 875 x 0.04 USD
        assert!(text.contains("13000 requests/s and") && text.contains("100.00 USD a month"), "{text}");
        assert!(text.contains("at most 27.2 of its 16000 requests/s"), "{text}");
        assert!(text.ends_with("(us-east-1, prices of 2026-10-07)."), "{text}");
        let other = ProvisionedVolume { type_id: "azure-p60".into(), ..idle };
        let text = describe_unused(&built_in_prices().unused_provision(&other));
        assert!(text.contains("no price of azure-p60 is known") && !text.contains("USD"), "{text}");
    }
}
