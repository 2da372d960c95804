//! Placement of the driver and the server on CPU cores.
//!
//! By default the scheduler puts both on one core when the machine is busy and on two when it is
//! idle. Waking a sleeping core is charged to the waker, so the same bare loop costs 0.5 us per
//! call in one case and 1.1 in the other. A ratio between servers that were placed differently is
//! meaningless.

use std::process::{Child, Command};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// The available placements.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cores {
    /// Both on one core: the work alone, whatever else the machine does
    OneCore,
    /// The driver on one core and the server on the others: the work and the wake-ups
    Apart,
    /// The driver on one core and the server on one other: what a core can do if the driver never
    /// limits it
    OneEach,
    /// No restriction
    Free,
}

impl Cores {
    /// Resolves a choice to cores of this machine. Call it before anything is confined.
    pub(crate) fn place(self) -> anyhow::Result<Placement> {
        let all = sched_getaffinity(None).context("cannot find out which cores are allowed")?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|&core| all.is_set(core));
        let last = last.context("no core is allowed")?;
        let mut one = CpuSet::new();
        one.set(last);
        let mut others = all;
        others.unset(last);
        Ok(match self {
            Self::OneCore => Placement { driver: one, server: one },
            Self::Apart => {
                ensure!(others.count() > 0, "there is one core, so nothing can be kept apart");
                Placement { driver: one, server: others }
            }
            Self::OneEach => {
                let other = (0..last).rev().find(|&core| all.is_set(core));
                let other = other.context("there is one core, so nothing can be kept apart")?;
                let mut server = CpuSet::new();
                server.set(other);
                Placement { driver: one, server }
            }
            Self::Free => Placement { driver: all, server: all },
        })
    }
}

/// The cores of the driver and those of the server.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    driver: CpuSet,
    server: CpuSet,
}

impl Placement {
    /// Starts a server on its cores, and confines the calling thread to those of the driver.
    ///
    /// The affinity is inherited by all threads of the server, and by threads the caller starts
    /// later.
    pub(crate) fn spawn(&self, command: &mut Command) -> anyhow::Result<Child> {
        sched_setaffinity(None, &self.server)?;
        let child = command.spawn();
        sched_setaffinity(None, &self.driver)?;
        Ok(child?)
    }
}
