use std::fmt;

use mooncake_memory::{Buffer, copy_from_process};
use mooncake_types::SegmentId;

use super::known_peers::Near;
use super::peer_discovery::NearPeer;
use crate::Way;

/// How this process reads a segment of a node on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// From the node's memory, which is mapped here.
    Mapped,
    /// By the kernel, out of the node's process.
    Kernel {
        /// Why the memory is not mapped, in words; empty if that was not tried.
        not_mapped: String,
    },
    /// As frames over its local socket, because neither works.
    LocalSocket {
        /// In words, one for each way that was tried.
        why: Vec<String>,
    },
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::Mapped => f.write_str("its memory is mapped here"),
            Reach::Kernel { not_mapped } if not_mapped.is_empty() => {
                f.write_str("the kernel copies its memory")
            }
            Reach::Kernel { not_mapped } => {
                write!(f, "the kernel copies its memory; {not_mapped}")
            }
            Reach::LocalSocket { why } => write!(f, "over its local socket; {}", why.join("; ")),
        }
    }
}

impl Near {
    /// How this process reads a segment of a node on this host.
    pub(super) fn reach(&self, met: &NearPeer, segment: SegmentId) -> Reach {
        let mut why = Vec::new();
        let Some(found) = met.0.segment(segment) else {
            why.push("it does not share this segment".to_owned());
            return Reach::LocalSocket { why };
        };
        for way in self.ways.near() {
            match way {
                Way::Shm if found.region().is_some() => return Reach::Mapped,
                Way::Shm => why.push(
                    "it is a file or the program's own memory, which is not shared".to_owned(),
                ),
                _ => match probe(met, found.address()) {
                    Ok(()) => return Reach::Kernel { not_mapped: why.join("; ") },
                    Err(reason) => why.push(reason),
                },
            }
        }
        Reach::LocalSocket { why }
    }
}

/// Whether the kernel copies memory of the node's process.
fn probe(met: &NearPeer, address: u64) -> Result<(), String> {
    let pid =
        met.0.pid.ok_or("it runs in another pid namespace, so its process has no number here")?;
    let byte = Buffer::zeroed(1);
    copy_from_process(pid, address, byte.raw())
        .map_err(|error| format!("the kernel does not copy memory of process {pid}: {error}"))
}
