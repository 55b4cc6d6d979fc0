//! Judges rules tick by tick for alerts: whether each holds now, and at what value. It uses the judge's own conditions,
//! so that a rule means the same in an alert and in a verdict.

use std::sync::Arc;

use diskwright_base::{Ceiling, Frame, Note, Schema, Topology, ceiling};

use crate::compile::{JudgeProgram, ProgramOptions, SchemaIndex, compile_rules};
use crate::rules::Pack;
use crate::sums::{Chunk, ChunkTimes, MaskScratch, NodeColumn, NodeColumns, States, WindowGrid};

/// A rule at an instance at a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleTick<'a> {
    /// Position of the rule in its pack.
    pub rule: usize,
    /// The instance; empty for the machine.
    pub instance: &'a str,
    /// True where it holds; `None` where that is unknown.
    pub holds: Option<bool>,
    /// Position of the leading condition among the rule's conditions, and the value of its quantity.
    pub lead: Option<(usize, f64)>,
}

/// Judges the rules of a pack at each tick.
pub struct RuleMonitor {
    packs: Vec<Pack>,
    ceilings: Vec<Ceiling>,
    /// The ceilings of the devices that the topology shows.
    matched_ceilings: Vec<Ceiling>,
    topology: Option<Topology>,
    schema: Option<Arc<Schema>>,
    states: States,
    program: JudgeProgram,
    grid: WindowGrid,
    slots: Vec<NodeColumn>,
    times: ChunkTimes,
    scratch: MaskScratch,
    ticks: usize,
}

impl RuleMonitor {
    /// Creates a monitor that has seen no tick; `ceilings` are those that probes measured.
    pub fn new(pack: Pack, ceilings: Vec<Ceiling>) -> RuleMonitor {
        let packs = vec![pack];
        RuleMonitor {
            states: States::new(&packs),
            packs,
            matched_ceilings: ceiling::ceilings_for_topology(None, &ceilings),
            ceilings,
            topology: None,
            schema: None,
            program: JudgeProgram::default(),
            grid: WindowGrid::default(),
            slots: Vec::new(),
            times: ChunkTimes::default(),
            scratch: MaskScratch::default(),
            ticks: 0,
        }
    }

    /// The rules.
    pub fn pack(&self) -> &Pack {
        &self.packs[0]
    }

    /// Adds a note; only that of the topology is used.
    pub fn add_note(&mut self, note: &Note) {
        if note.kind == Note::TOPOLOGY
            && let Ok(topology) = note.read_topology()
            && self.topology.as_ref() != Some(topology.as_ref())
        {
            self.matched_ceilings = ceiling::ceilings_for_topology(Some(&topology), &self.ceilings);
            self.topology = Some(Arc::unwrap_or_clone(topology));
            self.schema = None;
        }
    }

    /// Judges tick number `index` of a frame and calls `each` for every rule at every instance.
    pub fn judge_tick(&mut self, frame: &Frame, index: usize, each: &mut dyn FnMut(RuleTick<'_>)) {
        self.prepare_program(frame.schema());
        let RuleMonitor { program, states, grid, slots, times, scratch, ticks, .. } = self;
        let range = index..index + 1;
        times.fill_from(frame, range.clone(), frame.ticks()[index].start_ns(), *ticks);
        *ticks += 1;
        times.grid_cells.clear();
        times.grid_cells.push(grid.add_tick(&frame.ticks()[index]));
        let seconds = std::mem::take(&mut times.seconds);
        let chunk = Chunk { frame, range, seconds: &seconds };
        let mut columns = NodeColumns { slot_of: &program.slot_of, slots };
        for &node in &program.shared {
            columns.evaluate_node(node, &program.nodes[node], &chunk);
        }
        for group in &program.groups {
            for &node in &group.order {
                columns.evaluate_node(node, &program.nodes[node], &chunk);
            }
            for plan in &group.progress_plans {
                let progress = &mut states.progress[plan.state];
                let held = progress.judge_chunk(plan, &columns, times, scratch);
                let holds = (scratch.judged[0] != 0).then_some(held);
                let lead = plan.leading_value(&columns, scratch, 0);
                each(RuleTick { rule: progress.rule, instance: &progress.instance, holds, lead });
            }
        }
        times.seconds = seconds;
    }

    fn prepare_program(&mut self, schema: &Arc<Schema>) {
        if self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema) || known == schema) {
            return;
        }
        let schema_index = SchemaIndex::new(schema, self.topology.as_ref(), &self.matched_ceilings);
        self.states.forget_gone_instances(|instance| schema_index.has_instance(instance));
        let options = ProgramOptions { role: None, knows_window: false, finds_changes: false };
        self.program = compile_rules(&self.packs, &schema_index, &options, &mut self.states);
        self.slots.resize_with(self.program.slot_count, NodeColumn::default);
        self.schema = Some(schema.clone());
    }
}

#[cfg(test)]
mod tests {
    use diskwright_base::{Series, Tick};

    use super::*;

    /// A pack of one rule about disks, given by its condition and the terms of its alert.
    fn pack(condition: &str, alert: &str) -> Result<Pack, impl std::fmt::Display> {
        let source_lines = "source = 'test'\nexplain = 'test'\n";
        let text = format!(
            "[pack]\nid = 'mine'\ntitle = 'mine'\n{source_lines}[[rule]]\nid = 'disk.rule'\ntitle = 'disks'\n\
             object = 'physical_disk'\nbottleneck = 'disk'\nseverity = 'warning'\n{source_lines}\
             all = [{condition}]\nalert = {alert}\n"
        );
        Pack::load("mine.toml", &text)
    }

    #[test]
    fn a_rule_is_told_at_every_instance_with_its_value() {
        let clear = "clear = [{ counter = 'current_queue_length', below = 2 }]";
        let alert = format!("{{ hold = '30s', {clear}, silence = '10m' }}");
        let pack = pack("{ counter = 'current_queue_length', above = 4 }", &alert).map_err(|e| e.to_string()).unwrap();
        let terms = pack.rules[0].alert.clone().unwrap();
        assert_eq!((terms.hold_s, terms.clear_hold_s, terms.silence_s, terms.clear.len()), (30.0, 30.0, 600.0, 1));
        let series = |disk: &str| Series {
            counter: "physical_disk.current_queue_length".into(),
            instance: disk.into(),
            scale: 1.0,
        };
        let mut frame = Frame::new(Arc::new(Schema::new(vec![series("sda"), series("sdb")])), 2);
        frame.push(Tick { time_ns: 1_000_000_000, elapsed_ns: 1_000_000_000 }, &[5.0, 1.0]);
        frame.push(Tick { time_ns: 2_000_000_000, elapsed_ns: 1_000_000_000 }, &[f64::NAN, 9.0]);
        let mut monitor = RuleMonitor::new(pack, Vec::new());
        let mut seen = Vec::new();
        for index in 0..2 {
            monitor.judge_tick(&frame, index, &mut |tick| seen.push((tick.instance.to_owned(), tick.holds, tick.lead)));
        }
        let expected = [
            ("sda", Some(true), Some((0, 5.0))),
            ("sdb", Some(false), Some((0, 1.0))),
            ("sda", None, None),
            ("sdb", Some(true), Some((0, 9.0))),
        ];
        assert_eq!(seen, expected.map(|(instance, holds, lead)| (instance.to_owned(), holds, lead)));
    }

    #[test]
    fn terms_that_cannot_be_judged_at_a_tick_are_refused() {
        let pack = pack("{ counter = 'busy', trend = true, above = 0.1 }", "{ hold = '30s' }");
        let wrong = pack.map_err(|e| e.to_string()).unwrap_err();
        assert!(wrong.contains("an alert is judged at each tick"), "{wrong}");
    }
}
