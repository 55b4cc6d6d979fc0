//! Logical disks as stand-ins for physical ones. A Windows log may have only counters of `LogicalDisk`, or others than
//! of `PhysicalDisk`. Most rules on a disk apply to a drive letter too, as long as the verdict mentions the stand-in.

use crate::rules::{Condition, InstanceFilter, Operand, Rule, RuleCounter, RuleLimit};

const PHYSICAL: &str = "physical_disk";
const LOGICAL: &str = "logical_disk";

/// True for a missing counter of a physical disk, which a logical disk may have instead.
pub(crate) fn may_stand_in(missing: &str) -> bool {
    missing.split_once('.').is_some_and(|(object, _)| object == PHYSICAL)
}

/// The rule rewritten to logical disks. `None` where it needs something that they lack: members, a device class, a
/// measured ceiling.
pub(crate) fn on_logical_disks(rule: &Rule) -> Option<Rule> {
    let mut rule = rule.clone();
    if rule.object == PHYSICAL {
        let is_stacked = rule.which == InstanceFilter::Stacked;
        // the device class behind a drive letter is unknown
        let fits_unknown_class =
            rule.classes.is_empty() || rule.classes.contains(&diskwright_base::DeviceClass::Unknown);
        if is_stacked || !fits_unknown_class {
            return None;
        }
        rule.object = LOGICAL.into();
    }
    for condition in rule.all.iter_mut().chain(&mut rule.any) {
        replace_counters(condition)?;
    }
    // evidence is optional: a counter that logical disks lack stays as it is
    for name in &mut rule.evidence {
        if let Some(stand_in) = logical_counter(name) {
            *name = stand_in;
        }
    }
    Some(rule)
}

/// Replaces the counters of a condition; `None` where logical disks lack one of them.
fn replace_counters(condition: &mut Condition) -> Option<()> {
    let quantity = &mut condition.quantity;
    let operands = [&mut quantity.times, &mut quantity.over].into_iter().filter_map(|operand| match operand {
        Some(Operand::Counter(name)) => Some(name),
        _ => None,
    });
    let limit = match &mut condition.limit {
        RuleLimit::Counter { counter, .. } => Some(counter),
        RuleLimit::Number(_) | RuleLimit::EachDisk { .. } => None,
    };
    let names = std::iter::once(&mut quantity.counter).chain(&mut quantity.plus).chain(&mut quantity.minus);
    for name in names.chain(operands).chain(limit) {
        *name = logical_counter(name)?;
    }
    Some(())
}

/// The logical disk's counter of the same name; counters of other objects are returned unchanged.
fn logical_counter(name: &RuleCounter) -> Option<RuleCounter> {
    if name.object != PHYSICAL {
        return Some(name.clone());
    }
    let (_, short) = name.id.split_once('.')?;
    let stand_in = RuleCounter::find_name(LOGICAL, short)?;
    let is_same_kind = name.pseudo.is_none() || name.pseudo == stand_in.pseudo;
    (is_same_kind && stand_in.object == LOGICAL).then_some(stand_in)
}
