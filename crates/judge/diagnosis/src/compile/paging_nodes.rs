//! Nodes for the share of a disk's work that is paging: swap traffic and page reads as a share of the disk's transfers,
//! refaults as a share of the bytes read.

use diskwright_base::counter_ids::{paging, physical_disk};
use diskwright_base::topology::DEFAULT_PAGE_BYTES;
use diskwright_base::{DeviceClass, Topology};

use crate::compile::node_builder::{Absence, NodeBuilder, RuleScope};
use crate::sums::{Formula, NodeFactor, NodeId, ProgramNode, SwapNodes};

/// Transfers per second of a fast disk according to the NT Resource Kit, for logs that do not count transfers.
const QUICK_DISK_TRANSFERS_PER_S: f64 = 40.0;

/// Counters of a disk of which one at least is known where its load is.
const DISK_LOADS: [&str; 4] = ["avg_queue_length", "busy", "transfers_per_s", "bytes_per_s"];

const SWAP_IN_COUNTER: &str = paging::SWAP_IN_PAGES_PER_S;
const SWAP_OUT_COUNTER: &str = paging::SWAP_OUT_PAGES_PER_S;

impl<'a> NodeBuilder<'a> {
    /// Share of swapping in the traffic of the disks that hold the swap space.
    pub(crate) fn swap_share(&mut self, scope: &RuleScope<'a>) -> Result<NodeId, Absence> {
        let missing = |counter: &str| Absence::Missing(counter.to_owned());
        let (object, disks) = self.swap_disks(scope)?;
        let (pages_in, pages_out) = (self.total_node(SWAP_IN_COUNTER), self.total_node(SWAP_OUT_COUNTER));
        if pages_in.is_none() && pages_out.is_none() {
            return Err(missing(SWAP_IN_COUNTER));
        }
        let mut bytes = self.combined_node(&format!("{object}.bytes_per_s"), &disks);
        let transfers = self.transfers_node(object, &disks);
        if matches!(scope, RuleScope::Machine) && disks.is_empty() && bytes.is_none() {
            bytes = self.block_bytes_node();
        }
        if bytes.is_none() && transfers.is_none() {
            return Err(missing(&format!("{object}.bytes_per_s")));
        }
        let index = self.schema_index;
        let in_memory = self.combined_node(physical_disk::BYTES_PER_S, index.memory_disks());
        let faults = self.total_node(paging::MAJOR_FAULTS_PER_S);
        let page_bytes = self.page_size();
        let swapping = SwapNodes { pages_in, pages_out, faults, bytes, transfers, in_memory, page_bytes };
        Ok(self.push(format!("swap share@{object}:{}", disks.join("+")), ProgramNode::SwapShare(Box::new(swapping))))
    }

    /// Bytes of all disks as the kernel counts them beside swapping (`bi` and `bo` of vmstat), for logs without disks.
    fn block_bytes_node(&mut self) -> Option<NodeId> {
        let read = self.total_node(paging::BLOCK_IN_BYTES_PER_S)?;
        let written = self.total_node(paging::BLOCK_OUT_BYTES_PER_S)?;
        Some(self.push("bytes of all disks".into(), ProgramNode::Sum(vec![read, written])))
    }

    /// The disks that may hold the swap space, and their object.
    fn swap_disks(&self, scope: &RuleScope<'a>) -> Result<(&'static str, Vec<&'a str>), Absence> {
        let swaps = self.schema_index.topology.map_or(&[][..], |t| &t.swaps);
        let on_disks = swaps
            .iter()
            .filter(|s| self.schema_index.device_class(&s.device) != DeviceClass::Memory && !s.device.is_empty());
        let mut swap_disks: Vec<&str> = on_disks.flat_map(|s| self.schema_index.measured_members(&s.device)).collect();
        swap_disks.sort_unstable();
        swap_disks.dedup();
        let all_in_memory =
            !swaps.is_empty() && swaps.iter().all(|s| self.schema_index.device_class(&s.device) == DeviceClass::Memory);
        if all_in_memory {
            return Err(Absence::Nowhere);
        }
        match scope {
            RuleScope::Instance("logical_disk", drive) => Ok(("logical_disk", vec![drive])),
            RuleScope::Instance(_, disk) | RuleScope::Array(disk) if !swap_disks.is_empty() => {
                let below = self.schema_index.measured_members(disk);
                let holds_swap = swap_disks.contains(disk) || below.iter().any(|d| swap_disks.contains(d));
                if holds_swap { Ok(("physical_disk", swap_disks)) } else { Err(Absence::Nowhere) }
            }
            RuleScope::Instance(_, disk) | RuleScope::Array(disk) => Ok(("physical_disk", vec![disk])),
            RuleScope::Machine | RuleScope::Combined(..) if !swap_disks.is_empty() => Ok(("physical_disk", swap_disks)),
            RuleScope::Machine | RuleScope::Combined(..) => Ok(("physical_disk", self.schema_index.disks().to_vec())),
        }
    }

    /// Share of a disk's transfers that are page reads and writes (Windows).
    pub(crate) fn page_share(&mut self, scope: &RuleScope<'a>) -> Result<NodeId, Absence> {
        if self.total_node(SWAP_IN_COUNTER).is_some() {
            return Err(Absence::Nowhere);
        }
        let (object, disk) = match scope {
            RuleScope::Instance(object @ ("physical_disk" | "logical_disk"), disk) => (*object, *disk),
            RuleScope::Array(disk) => ("physical_disk", *disk),
            _ => return Err(Absence::Nowhere),
        };
        let transfers = self.transfers_node(object, &[disk]);
        let key = format!("page share@{object}:{disk}");
        let reads = self.total_node(paging::PAGE_READS_PER_S);
        if let Some(reads) = reads {
            let total = transfers.unwrap_or_else(|| self.push_constant(QUICK_DISK_TRANSFERS_PER_S));
            let writes = self.total_node(paging::PAGE_WRITES_PER_S);
            let part =
                self.push("page operations@".into(), ProgramNode::Sum([reads].into_iter().chain(writes).collect()));
            return Ok(self.push(key, ProgramNode::Share { part, total }));
        }
        let pages = self.total_node(paging::PAGES_PER_S).or_else(|| self.total_node(paging::PAGES_INPUT_PER_S));
        let pages = pages.ok_or_else(|| Absence::Missing(paging::PAGE_READS_PER_S.into()))?;
        if let Some(total) = self.counter_node(&format!("{object}.bytes_per_s"), disk) {
            let part = self.page_bytes(pages);
            return Ok(self.push(key, ProgramNode::Share { part, total }));
        }
        let total = transfers.unwrap_or_else(|| self.push_constant(QUICK_DISK_TRANSFERS_PER_S));
        Ok(self.push(key, ProgramNode::Share { part: pages, total }))
    }

    /// Transfers per second; by Little's law where the log has only queue and latency.
    fn transfers_node(&mut self, object: &str, disks: &[&str]) -> Option<NodeId> {
        let mut combined = |name: &str| self.combined_node(&format!("{object}.{name}"), disks);
        if let Some(counted) = combined("transfers_per_s") {
            return Some(counted);
        }
        let (queue, latency) = (combined("avg_queue_length")?, combined("avg_s_per_transfer")?);
        let formula = Formula {
            first: queue,
            plus: Vec::new(),
            minus: Vec::new(),
            times: NodeFactor::One,
            over: NodeFactor::Node(latency),
            per: NodeFactor::One,
        };
        Some(self.push(
            format!("transfers by Little's law@{object}:{}", disks.join("+")),
            ProgramNode::Formula(Box::new(formula)),
        ))
    }

    /// Share of the bytes read that were in memory shortly before.
    pub(crate) fn refault_share(&mut self) -> Result<NodeId, Absence> {
        let missing = |counter: &str| Absence::Missing(counter.to_owned());
        let refaults = paging::REFAULTS_PER_S;
        let pages = self.total_node(refaults).ok_or_else(|| missing(refaults))?;
        let read = physical_disk::READ_BYTES_PER_S;
        let total = self.total_node(read).or_else(|| self.total_node(paging::BLOCK_IN_BYTES_PER_S));
        let total = total.ok_or_else(|| missing(read))?;
        let part = self.refault_bytes(pages);
        Ok(self.push("refault share@".into(), ProgramNode::Share { part, total }))
    }

    /// Bytes of the pages that were read from a disk although they were in memory shortly before.
    fn refault_bytes(&mut self, pages: NodeId) -> NodeId {
        // pages that return from zram were not read from a disk
        let swaps = self.schema_index.topology.map_or(&[][..], |t| &t.swaps);
        let in_memory = swaps.iter().any(|s| self.schema_index.device_class(&s.device) == DeviceClass::Memory);
        let file_refaults = if in_memory { self.total_node(paging::REFAULTS_FILE_PER_S) } else { None };
        self.page_bytes(file_refaults.unwrap_or(pages))
    }

    /// Largest share of what one disk reads that can have been in memory shortly before: no counter tells from which
    /// disk a page came back.
    pub(crate) fn refault_share_of(&mut self, disk: &str) -> Option<NodeId> {
        let pages = self.total_node(paging::REFAULTS_PER_S)?;
        let total = self.counter_node(physical_disk::READ_BYTES_PER_S, disk)?;
        let part = self.refault_bytes(pages);
        Some(self.push(format!("refault share@{disk}"), ProgramNode::Share { part, total }))
    }

    /// Constant 1 where the log lacks swap traffic or refaults, else 0.
    pub(crate) fn paging_unseen(&mut self) -> NodeId {
        let is_seen = self.total_node(SWAP_IN_COUNTER).is_some() && self.total_node(paging::REFAULTS_PER_S).is_some();
        self.push_constant(f64::from(u8::from(!is_seen)))
    }

    /// 1 while the log knows nothing of any disk's load: it has no disks, or Windows did not measure them.
    pub(crate) fn disks_unseen(&mut self) -> NodeId {
        let schema_index = self.schema_index;
        let mut known = Vec::new();
        for object in ["physical_disk", "logical_disk"] {
            for disk in schema_index.instances(object) {
                let nodes = DISK_LOADS.map(|load| self.counter_node(&format!("{object}.{load}"), disk));
                known.extend(nodes.into_iter().flatten());
            }
        }
        if known.is_empty() {
            return self.push_constant(1.0);
        }
        self.push("disks unseen@".into(), ProgramNode::NoneKnown(known))
    }

    /// Page size of this machine, bytes.
    fn page_size(&self) -> f64 {
        self.schema_index.topology.map_or(DEFAULT_PAGE_BYTES, Topology::page_size_bytes)
    }

    /// Node of the bytes of a number of pages.
    fn page_bytes(&mut self, pages: NodeId) -> NodeId {
        let formula = Formula {
            first: pages,
            plus: Vec::new(),
            minus: Vec::new(),
            times: NodeFactor::Number(self.page_size()),
            over: NodeFactor::One,
            per: NodeFactor::One,
        };
        self.push(format!("bytes of {}", self.keys[pages]), ProgramNode::Formula(Box::new(formula)))
    }
}
