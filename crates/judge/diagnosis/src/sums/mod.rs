//! From ticks to sums: nodes that compute quantities a chunk of ticks at a time, and the states that sum these up over
//! the window: means, progress of rules, buckets, norms, trends.
//!
//! Uses `rules`.

mod chunk_times;
mod clock_buckets;
mod hold_intervals;
mod lane_sums;
mod node;
mod norm_and_depletion;
mod rule_progress;
mod steadiness;
mod window_buckets;
mod window_parts;
mod window_states;

pub(crate) use chunk_times::ChunkTimes;
pub use clock_buckets::MIN_WINDOW_S;
pub(crate) use clock_buckets::{
    BucketPoint, ClockBucketTicks, ClockBuckets, ClockTimeline, MAX_CHANGE_BUCKETS, is_long_enough,
};
pub(crate) use lane_sums::LaneSums;
pub(crate) use node::volume_use::{VolumeLoad, VolumeNodes, counted_load};
pub(crate) use node::{
    CHUNK_TICKS, CeilingNodes, Chunk, Formula, NodeColumn, NodeColumns, NodeFactor, NodeId, ProgramNode, SwapNodes,
    pass_gap,
};
pub(crate) use rule_progress::{
    ChangeReference, ConditionPlan, ConditionState, EvidenceState, LimitPlan, MaskScratch, OperandState, ProgressPlan,
    RuleProgress, WindowPlan,
};
pub(crate) use window_buckets::{WindowBucketTicks, WindowState};
pub(crate) use window_parts::{HeldTimes, WindowGrid};
pub(crate) use window_states::{ChangeSeries, LIGHT_LOAD_QUEUES, PagingTracks, RuleState, States, Statistic};
