//! Cache of a compiled program from one window to the next. Compiling the rules for a machine's series costs more than
//! judging a minute of them, and a screen that judges every few seconds has the same series and topology each time.

use std::sync::Arc;

use diskwright_base::{Ceiling, Note, Schema, Topology};

use crate::compile::JudgeProgram;
use crate::run::observation::Observation;
use crate::sums::States;

/// A program, the inputs from which it was compiled, and the states that it feeds, as they were before any tick.
pub(crate) struct CachedProgram {
    schema: Arc<Schema>,
    topology: Option<Topology>,
    ceilings: Vec<Ceiling>,
    /// True for another tool's log.
    is_foreign: bool,
    knows_window: bool,
    program: Arc<JudgeProgram>,
    states: States,
}

impl CachedProgram {
    /// Keeps the program for the first schema of a window.
    pub fn new(
        observed: &Observation,
        schema: &Arc<Schema>,
        (is_foreign, knows_window): (bool, bool),
        program: &Arc<JudgeProgram>,
    ) -> CachedProgram {
        CachedProgram {
            schema: Arc::clone(schema),
            topology: observed.topology.clone(),
            ceilings: observed.ceilings.clone(),
            is_foreign,
            knows_window,
            program: Arc::clone(program),
            states: observed.states.clone(),
        }
    }

    /// The program and fresh states, where the inputs are the same.
    pub fn reuse_for(
        &self,
        observed: &Observation,
        schema: &Arc<Schema>,
        (is_foreign, knows_window): (bool, bool),
    ) -> Option<(Arc<JudgeProgram>, States)> {
        let is_same = (Arc::ptr_eq(&self.schema, schema) || self.schema == *schema)
            && (self.is_foreign, self.knows_window) == (is_foreign, knows_window)
            && self.topology == observed.topology
            && self.ceilings == observed.ceilings;
        is_same.then(|| (Arc::clone(&self.program), self.states.clone()))
    }
}

/// Reads notes of the topology and keeps the last topology, because consecutive windows have the same note.
#[derive(Default)]
pub(crate) struct TopologyReader {
    last: Option<(Note, Arc<Topology>)>,
}

impl TopologyReader {
    /// Topology of a note.
    pub fn read(&mut self, note: &Note) -> Result<Arc<Topology>, serde_json::Error> {
        if let Some((_, topology)) = self.last.as_ref().filter(|(known, _)| known.has_same_content(note)) {
            return Ok(Arc::clone(topology));
        }
        let topology = note.read_topology()?;
        self.last = Some((note.clone(), Arc::clone(&topology)));
        Ok(topology)
    }
}
