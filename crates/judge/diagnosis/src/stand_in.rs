//! Logical disks in the place of physical ones. A Windows log may hold
//! `LogicalDisk` alone, or other counters of it than of `PhysicalDisk`; most
//! of what is said of a disk can be said of a drive letter too, as long as the
//! answer says that it was.

use crate::names::RuleCounter;
use crate::rule::{Condition, InstanceFilter, Operand, Rule, RuleLimit};

const PHYSICAL: &str = "physical_disk";
const LOGICAL: &str = "logical_disk";

/// True for a counter that a logical disk may have instead.
pub(crate) fn may_stand_in(missing: &str) -> bool {
    missing.split_once('.').is_some_and(|(object, _)| object == PHYSICAL)
}

/// The rule with logical disks for physical ones. `None` where it asks for
/// what they do not have: members, a class, a probe's ceilings.
pub(crate) fn on_logical_disks(rule: &Rule) -> Option<Rule> {
    let mut rule = rule.clone();
    if rule.object == PHYSICAL {
        let of_a_disk = !matches!(rule.which, InstanceFilter::Set | InstanceFilter::Stacked);
        // nobody knows what a letter stands for
        let any_class = rule.classes.is_empty() || rule.classes.contains(&diskwright_base::DeviceClass::Unknown);
        if !of_a_disk || !any_class {
            return None;
        }
        rule.object = LOGICAL.into();
    }
    for condition in rule.all.iter_mut().chain(&mut rule.any) {
        rename(condition)?;
    }
    // evidence is shown where it is there
    for name in &mut rule.evidence {
        if let Some(other) = logical(name) {
            *name = other;
        }
    }
    Some(rule)
}

fn rename(condition: &mut Condition) -> Option<()> {
    let quantity = &mut condition.quantity;
    let operands = [&mut quantity.times, &mut quantity.over].into_iter().filter_map(|operand| match operand {
        Some(Operand::Counter(name)) => Some(name),
        _ => None,
    });
    let limit = match &mut condition.limit {
        RuleLimit::Counter { counter, .. } => Some(counter),
        RuleLimit::Number(_) => None,
    };
    let names = std::iter::once(&mut quantity.counter).chain(&mut quantity.plus).chain(&mut quantity.minus);
    for name in names.chain(operands).chain(limit) {
        *name = logical(name)?;
    }
    Some(())
}

/// The logical disk's counter of that name; others stay what they are.
fn logical(name: &RuleCounter) -> Option<RuleCounter> {
    if name.object != PHYSICAL {
        return Some(name.clone());
    }
    let (_, short) = name.id.split_once('.')?;
    let other = RuleCounter::find(LOGICAL, short)?;
    let same = name.pseudo.is_none() || name.pseudo == other.pseudo;
    (same && other.object == LOGICAL).then_some(other)
}
