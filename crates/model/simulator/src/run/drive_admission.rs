//! The requests that a drive does not see yet: those beyond its depth, and those that wait for a flush, a trim or a
//! change.
//!
//! A mechanical drive executes nothing else during a flush (FLUSH CACHE of ATA cannot be queued): it completes the
//! requests that it has seen, then writes the data that it has acknowledged; requests that arrive meanwhile wait. It
//! ignores trims. An SSD takes both as queued commands; see [`crate::flash::FlashDevice::submit_flush`].

use super::channels::ChannelRun;
use super::drive_changes::DriveHealth;
use super::drives::{DriveKind, DriveRun};
use super::job::{JobFlow, JobPurpose};
use crate::Ns;

impl DriveRun {
    /// Queues a request that the drive cannot take at once.
    pub fn queue_request(&mut self, now: Ns, job: u32, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        if self.health == DriveHealth::Failed {
            return self.complete_without_service(now, job, flow);
        }
        self.waiting.push_back(job);
        if self.is_hung && self.meter.servers_working() < self.server_count() {
            // the sender cannot tell that the drive hangs: it sees the request in service
            self.meter.record_start(now);
            self.counted_in_service += 1;
        }
        if !flow.jobs[job].purpose.moves_data() {
            self.waiting_orders += 1;
            self.admit_waiting(now, channels, flow);
        }
    }

    /// Lets the drive see as many waiting requests as it may.
    pub fn admit_waiting(&mut self, now: Ns, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.start_replacement(now);
        while let Some((job, purpose)) = self.next_admissible(flow) {
            self.waiting.pop_front();
            if self.counted_in_service > 0 {
                self.counted_in_service -= 1;
                self.meter.record_stop(now);
            }
            if !purpose.moves_data() {
                debug_assert!(self.waiting_orders > 0, "an order waits that was not counted");
                self.waiting_orders -= 1;
            }
            let takes_trims = self.is_flash();
            match (purpose, &mut self.kind) {
                (JobPurpose::Trim, _) if !takes_trims => self.complete_without_service(now, job, flow),
                (JobPurpose::Flush, DriveKind::Mechanical(_)) => self.start_flush(now, job, channels, flow),
                (_, DriveKind::Mechanical(mechanical)) => {
                    mechanical.queue.push(&mechanical.drive, flow.jobs[job].io, job);
                    self.count_visible();
                }
                _ => self.submit_request(now, job, channels, flow),
            }
        }
        let is_open = self.is_open();
        self.admit_limit = if !is_open || self.waiting_orders > 0 { 0 } else { self.depth };
        match &self.kind {
            DriveKind::Mechanical(mechanical) if is_open && mechanical.serving.is_none() => {
                self.start_next_request(now, channels, flow)
            }
            _ => {}
        }
    }

    /// Returns the first waiting request, if the drive may see it now.
    fn next_admissible(&self, flow: &JobFlow) -> Option<(u32, JobPurpose)> {
        let job = *self.waiting.front()?;
        let purpose = flow.jobs[job].purpose;
        let must_wait = purpose == JobPurpose::Flush && self.is_mechanical() && self.visible > 0;
        (self.is_open() && self.visible < self.depth && !must_wait).then_some((job, purpose))
    }

    /// Admits waiting requests after a completion while a flush, a trim or a change restricts admission.
    pub fn admit_after_completion(&mut self, now: Ns, channels: &mut [ChannelRun], flow: &mut JobFlow) {
        self.is_flushing = false;
        if let DriveKind::Mechanical(mechanical) = &mut self.kind {
            mechanical.serving = None;
        }
        self.admit_waiting(now, channels, flow);
    }

    /// Completes a request at once: a drive that has failed serves none, and most drives ignore trims.
    pub fn complete_without_service(&mut self, now: Ns, job: u32, flow: &mut JobFlow) {
        self.meter.record_start(now);
        self.meter.record_completion(now, flow.jobs[job].arrived_ns);
        // as an event: its parent may send another request to this drive
        flow.schedule_next_step(now, job);
    }

    /// True if the drive accepts requests, up to its depth.
    fn is_open(&self) -> bool {
        !self.is_flushing && !self.is_hung && self.health == DriveHealth::Working
    }
}
