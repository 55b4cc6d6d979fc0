//! Nodes of the quantities whose changes of level are looked for.

use crate::compile::node_builder::RuleScope;
use crate::compile::rule_program::{ProgramBuilder, ProgramGroup};
use crate::rules::change_quantities;

/// Largest number of instances of an object that are followed.
const MAX_INSTANCES: usize = 64;
/// Objects of which each instance is followed; all others are followed as a whole.
const OBJECTS_BY_INSTANCE: [&str; 2] = ["physical_disk", "cgroup"];

impl<'a> ProgramBuilder<'a, '_> {
    /// Adds a series for each quantity and instance that the log has.
    pub(super) fn add_change_series(&mut self) {
        for (index, quantity) in change_quantities().iter().enumerate() {
            let object = OBJECTS_BY_INSTANCE.into_iter().find(|object| *object == quantity.object());
            let Some(object) = object else {
                if let Some(node) = self.builder.total_node(&quantity.counter) {
                    let series = self.states.change_series_index(index, "");
                    let group = ProgramGroup { changes: vec![(node, series)], ..ProgramGroup::default() };
                    self.merge_group(&RuleScope::Machine, group);
                }
                continue;
            };
            let instances: Vec<&'a str> = self.builder.schema_index.instances(object).to_vec();
            let mut followed = 0;
            for instance in instances {
                if followed >= MAX_INSTANCES {
                    break;
                }
                let Some(node) = self.builder.counter_node(&quantity.counter, instance) else { continue };
                followed += 1;
                let series = self.states.change_series_index(index, instance);
                let group = ProgramGroup { changes: vec![(node, series)], ..ProgramGroup::default() };
                self.merge_group(&RuleScope::Instance(object, instance), group);
            }
        }
    }
}
