//! Live tracing of single requests of this machine's block devices.
//!
//! The kernel reports every request by tracepoints. They are read by two methods, neither of which disturbs another
//! tracer or leaves anything behind: raw pages of an instance of tracefs (`tracefs.rs`, `page.rs`, `reader.rs`), which
//! have every event, and small programs in the kernel (`kernel/`), which keep histograms there. `trace_method.rs`
//! starts them. The offsets of fields are read from the kernel's own descriptions (`layout.rs`). `pairing.rs` builds
//! requests from events, and `summary.rs` sums them up.

pub mod blktrace_file;
mod budget;
pub mod devices;
pub mod dirty_pages;
pub mod diskstats;
pub mod event;
mod fifo_map;
pub mod interval;
pub mod kernel;
pub mod layout;
pub mod page;
pub mod pairing;
pub mod reader;
pub mod session;
pub mod summary;
mod trace_cost;
mod trace_method;
pub mod tracefs;

pub use blktrace_file::BlktraceWriter;
pub use diskwright_base::latency::{self, LatencyHistogram};
pub use event::{BlockEvent, BlockEventKind, EventTable, TracedOperation};
pub use interval::{DeviceInterval, IntervalCollector};
pub use kernel::{KernelCountError, KernelCountLoss, KernelCounter, ProgramTimer};
pub use pairing::{PairingCounts, RequestPairing, TracedRequest};
pub use reader::{EventReader, KernelFilter};
pub use session::{MethodChoice, SessionOptions, TraceSession};
pub use summary::{CountedRequests, HeatMap, OperationSummary, RequestSummary};
pub use trace_cost::TraceCost;
pub use trace_method::TraceMethod;
pub use tracefs::{TraceLoss, Tracefs, TracefsError};
