//! The section of the page on cloud volumes and their instance.

use diskwright_diagnosis::Verdict;
use maud::{Markup, html};

/// The section of the page.
pub(crate) fn volumes_section(verdict: &Verdict) -> Markup {
    let volumes = verdict.volumes.iter().map(|v| (&v.sentence, &v.told_by, &v.source, &v.unconfirmed));
    let instance = verdict.cloud_instance.iter().map(|i| (&i.sentence, &i.told_by, &i.source, &i.unconfirmed));
    html! {
        @for (sentence, told_by, source, unconfirmed) in volumes.chain(instance) {
            p {
                (sentence) " (type by " (told_by) ")"
                @if !source.is_empty() { "; limits: " (source) }
                @if let Some(because) = unconfirmed { "; not confirmed: " (because) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use diskwright_diagnosis::verdict::InstanceUse;

    use super::*;
    use crate::fixture;

    #[test]
    fn an_instance_is_shown_with_its_source_and_texts_are_escaped() {
        assert!(volumes_section(&fixture::sample_verdict()).0.is_empty());
        let instance = InstanceUse {
            type_id: "m6i.large".into(),
            provider: "aws".into(),
            requests: None,
            bytes: None,
            told_by: fixture::EVIL.into(),
            source: "ebs-optimized.md".into(),
            unconfirmed: Some("from memory".into()),
            sentence: "instance m6i.large: no load of a volume was seen".into(),
        };
        let verdict = Verdict { cloud_instance: Some(instance), ..fixture::sample_verdict() };
        let text = volumes_section(&verdict).0;
        assert!(text.contains("instance m6i.large") && text.contains("limits: ebs-optimized.md"), "{text}");
        assert!(text.contains("not confirmed: from memory") && !text.contains(fixture::EVIL), "{text}");
    }
}
