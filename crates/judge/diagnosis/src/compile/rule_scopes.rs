//! The scopes at which rules are judged: instances of their object, groups of them, or the machine.

use std::collections::HashMap;
use std::rc::Rc;

use diskwright_base::DeviceClass;

use crate::compile::node_builder::RuleScope;
use crate::compile::schema_index::SchemaIndex;
use crate::rules::{InstanceFilter, Pseudo, Rule, RuleCounter};

/// A scope, and the shape of its instance; see [`SchemaIndex::instance_shape`].
type ShapedScope<'a> = (RuleScope<'a>, Option<usize>);

/// What the scopes of most rules depend on.
#[derive(PartialEq, Eq, Hash)]
struct ScopeKey {
    object: String,
    filter: InstanceFilter,
    classes: Vec<DeviceClass>,
    except_classes: Vec<DeviceClass>,
}

/// Scopes of the rules of a schema. Many rules have the same, and a log may have a hundred thousand instances.
#[derive(Default)]
pub(crate) struct RuleScopes<'a> {
    known: HashMap<ScopeKey, Rc<[ShapedScope<'a>]>>,
}

impl<'a> RuleScopes<'a> {
    /// Returns the scopes of a rule, in the schema's order.
    pub fn of_rule(&mut self, schema_index: &SchemaIndex<'a>, rule: &Rule) -> Rc<[ShapedScope<'a>]> {
        let find =
            || find_scopes(schema_index, rule).into_iter().map(|scope| with_shape(schema_index, scope)).collect();
        // which paths are judged depends on the counters of the rule
        if schema_index.has_multipath_nodes() {
            return find();
        }
        let key = ScopeKey {
            object: rule.object.clone(),
            filter: rule.which,
            classes: rule.classes.clone(),
            except_classes: rule.except_classes.clone(),
        };
        Rc::clone(self.known.entry(key).or_insert_with(find))
    }
}

/// Adds the shape of a single instance; a group's value is computed from another instance too.
fn with_shape<'a>(schema_index: &SchemaIndex<'a>, scope: RuleScope<'a>) -> ShapedScope<'a> {
    let shape = match &scope {
        RuleScope::Instance(object, instance) if *object != "cgroup" => schema_index.instance_shape(instance),
        _ => None,
    };
    (scope, shape)
}

/// Finds the scopes at which a rule is judged.
fn find_scopes<'a>(schema_index: &SchemaIndex<'a>, rule: &Rule) -> Vec<RuleScope<'a>> {
    if rule.object == "machine" {
        return vec![RuleScope::Machine];
    }
    let has_class = |device: &&str| {
        let class = schema_index.device_class(device);
        (rule.classes.is_empty() || rule.classes.contains(&class)) && !rule.except_classes.contains(&class)
    };
    let are_devices = matches!(rule.object.as_str(), "physical_disk" | "array");
    let keep = |names: Vec<&'a str>| -> Vec<&'a str> {
        if are_devices { names.into_iter().filter(has_class).collect() } else { names }
    };
    // the object's text must live as long as the schema index
    let Some(&object) = crate::rules::rule_objects().get(rule.object.as_str()) else { return Vec::new() };
    let one_by_one = |names: Vec<&'a str>| names.into_iter().map(|name| RuleScope::Instance(object, name)).collect();
    match rule.which {
        InstanceFilter::Total => {
            let instances = keep(schema_index.representative_instances(object));
            if instances.is_empty() { Vec::new() } else { vec![RuleScope::Combined(object, instances)] }
        }
        // a drive letter is an array where the user declared one
        InstanceFilter::Set | InstanceFilter::Single if object == "logical_disk" => {
            let is_array = |name: &&str| schema_index.drive_spindle_count(name).is_some_and(|count| count > 1);
            let wants_array = rule.which == InstanceFilter::Set;
            let singles = schema_index.single_instances(object);
            one_by_one(singles.into_iter().filter(|name| is_array(name) == wants_array).collect())
        }
        InstanceFilter::Set => keep(schema_index.array_names().collect()).into_iter().map(RuleScope::Array).collect(),
        InstanceFilter::Leaf | InstanceFilter::Single if object == "physical_disk" => {
            let is_judged = |d: &&str| schema_index.is_leaf(d) || is_judged_by_path(schema_index, rule, d);
            let is_array = |d: &str| schema_index.spindle_count(d).is_some_and(|count| count > 1);
            let is_chosen = |d: &&str| is_judged(d) && !(rule.which == InstanceFilter::Single && is_array(d));
            one_by_one(keep(schema_index.single_instances(object).into_iter().filter(is_chosen).collect()))
        }
        InstanceFilter::Stacked => {
            let is_stacked = |d: &&str| !schema_index.is_leaf(d) && schema_index.multipath_node(d).is_none();
            one_by_one(keep(schema_index.single_instances(object).into_iter().filter(is_stacked).collect()))
        }
        InstanceFilter::Leaf | InstanceFilter::Single | InstanceFilter::All => {
            one_by_one(keep(schema_index.single_instances(object)))
        }
    }
}

/// True for a path to a disk where the rule reads a counter that only paths have: health, errors, the speed of a link.
/// Load is judged at the disk, because it may take any path.
fn is_judged_by_path(schema_index: &SchemaIndex<'_>, rule: &Rule, path: &str) -> bool {
    let Some(node) = schema_index.multipath_node(path) else { return false };
    let has = |name: &RuleCounter, device: &str| match name.pseudo {
        None => schema_index.plan_counter(&name.id, device).is_some(),
        Some(Pseudo::LinkUsed) => schema_index.find_device(device).is_some_and(|d| d.link_bytes_per_s.is_some()),
        Some(_) => false,
    };
    let mut names = rule.conditions().flat_map(|c| c.quantity.counters()).filter(|name| name.object == rule.object);
    names.any(|name| has(name, path) && !has(name, node))
}
