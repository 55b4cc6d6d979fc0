//! Topology by hand: options for facts about disks and machine that a log lacks (`--array`, `--memory`, …, or a TOML
//! file).

use std::path::PathBuf;

use clap::Args;
use diskwright_ingest::{CloudFacts, MachineDescription, MachineFacts};

use super::volume_options::VolumeOptions;
use super::{Failure, first_given_option, model_distance};

/// Facts that the user knows about the disks of a log.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Logs of other tools")]
pub struct TopologyOptions {
    /// Declare a disk as an array with its level and members: 'PhysicalDisk(0)=raid5:3', 'sda=single'. * means
    /// every disk; a class may follow: 'sda=raid10:8:rotational' (repeatable)
    #[arg(long, value_name = "DISK=LEVEL:MEMBERS")]
    array: Vec<String>,
    /// Declare the model of a disk, for comparing it with the drive of that model: a drive of `list drives`, or as the
    /// disk would report it: 'sda=st4000nm0023' (repeatable)
    #[arg(long, value_name = "DISK=MODEL")]
    drive: Vec<String>,
    /// Read the same information from a TOML file: [[array]] with disk, level, members, class,
    /// stripe, drive; [[set]] with name, level, disks (a software array of disks in the log); [machine] with
    /// memory, processors, clock, network_interrupts
    #[arg(long, value_name = "FILE.toml")]
    topology: Option<PathBuf>,
    /// Physical memory of the machine, if the log does not show it: 256MB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Number of processors, if the log does not show it
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    processors: Option<u32>,
    /// Clock interrupts per second, if the log does not count them: 100 on Windows NT
    #[arg(long, value_name = "PER-SECOND")]
    clock: Option<f64>,
    #[command(flatten)]
    pub volumes: VolumeOptions,
    /// Network adapter interrupts per second, if the log does not count them
    #[arg(long, value_name = "PER-SECOND")]
    network_interrupts: Option<f64>,
}

impl TopologyOptions {
    /// Returns the first of these options that was given.
    pub fn first_given_option(&self) -> Option<&'static str> {
        first_given_option(&[
            ("--array", !self.array.is_empty()),
            ("--drive", !self.drive.is_empty()),
            ("--topology", self.topology.is_some()),
            ("--memory", self.memory.is_some()),
            ("--processors", self.processors.is_some()),
            ("--clock", self.clock.is_some()),
            ("--network-interrupts", self.network_interrupts.is_some()),
        ])
    }

    /// True if arrays are declared.
    pub fn declares_arrays(&self) -> bool {
        !self.array.is_empty() || self.topology.is_some()
    }

    /// True if models of disks are declared.
    pub fn declares_models(&self) -> bool {
        !self.drive.is_empty()
    }

    /// Returns the same options with other arrays and another file, if either is given.
    pub fn with_arrays(&self, arrays: &[String], file: Option<&PathBuf>) -> TopologyOptions {
        if arrays.is_empty() && file.is_none() {
            return self.clone();
        }
        TopologyOptions { array: arrays.to_vec(), topology: file.cloned(), ..self.clone() }
    }

    /// Returns all facts, checked; options override the file.
    pub fn describe_machine(&self) -> Result<MachineDescription, Failure> {
        let facts = MachineFacts {
            arrays: self.array.clone(),
            drives: self.drive.clone(),
            cloud: CloudFacts {
                volumes: self.volumes.declared_volumes()?,
                instance: self.volumes.declared_instance()?,
            },
            file: self.topology.clone(),
            memory: self.memory.clone(),
            processors: self.processors,
            clock: self.clock,
            network_interrupts: self.network_interrupts,
        };
        let machine = facts.describe()?;
        machine.declared_models().try_for_each(model_distance::check_model)?;
        Ok(machine)
    }
}
