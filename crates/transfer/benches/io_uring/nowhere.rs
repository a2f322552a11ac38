//! What a send without a copy could save at most: datagrams to a card that throws them away, as one that fetches the
//! bytes itself would leave the processor out of it.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, types};
use mooncake_memory::Buffer;

use crate::rounds::quartiles;
use crate::{link, usage};

/// Bytes of a datagram.
const DATAGRAM: usize = 60_000;

/// Memory that is sent, one datagram after the other: more than the caches hold.
const MEMORY: usize = 64 << 20;

/// Datagrams that are sent by one call.
const BATCH: usize = 16;

#[derive(Clone, Copy)]
enum Way {
    /// `send`, one call each.
    Send,
    /// Plain sends of a ring.
    Ring,
    /// Sends without a copy.
    ZeroCopy,
    /// The same from registered memory.
    ZeroCopyFixed,
}

const WAYS: [(&str, Way); 4] = [
    ("send", Way::Send),
    ("ring", Way::Ring),
    ("ring, zero copy", Way::ZeroCopy),
    ("ring, zero copy, registered memory", Way::ZeroCopyFixed),
];

struct Sender {
    socket: UdpSocket,
    ring: IoUring,
    memory: Buffer,
    copied: u64,
    ended: u64,
}

/// Measures and prints.
pub(crate) fn run(rounds: usize) {
    println!("\nSending {DATAGRAM} B datagrams to a card that throws them away\n");
    let mut sender = match Sender::new() {
        Ok(sender) => sender,
        Err(error) => {
            println!("left out: {error}");
            return;
        }
    };
    let mut costs = WAYS.map(|_| (Vec::new(), Vec::new()));
    for _ in 0..rounds {
        for ((_, way), (cpu, wall)) in WAYS.iter().zip(&mut costs) {
            let (cpu_time, wall_time) = sender.send_all(*way).expect("the card takes all");
            let per_gb = |time: Duration| time.as_secs_f64() * 1e3 / (MEMORY as f64 / 1e9);
            cpu.push(per_gb(cpu_time));
            wall.push(per_gb(wall_time));
        }
    }
    println!("| variant | CPU ms/GB | wall ms/GB |\n|---|---|---|");
    for ((name, _), (cpu, wall)) in WAYS.iter().zip(costs) {
        let show = |values| {
            let [low, median, high] = quartiles(values);
            format!("{median:.0} ({low:.0}-{high:.0})")
        };
        println!("| {name} | {} | {} |", show(cpu), show(wall));
    }
    println!("\nOf {} sends without a copy {} were copied.", sender.ended, sender.copied);
}

impl Sender {
    fn new() -> io::Result<Sender> {
        let socket = link::to_nowhere()?;
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(64)?;
        ring.submitter().register_files(&[std::os::fd::AsRawFd::as_raw_fd(&socket)])?;
        let memory = Buffer::from_vec(vec![7; MEMORY]);
        let all = libc::iovec { iov_base: memory.raw().as_ptr().cast(), iov_len: MEMORY };
        // SAFETY: the memory lies beside the ring in one struct, and all sends are waited for.
        unsafe { ring.submitter().register_buffers(&[all]) }?;
        Ok(Sender { socket, ring, memory, copied: 0, ended: 0 })
    }

    fn send_all(&mut self, way: Way) -> io::Result<(Duration, Duration)> {
        let (cpu, begin) = (usage::of_process(), Instant::now());
        let offsets: Vec<usize> = (0..MEMORY / DATAGRAM).map(|index| index * DATAGRAM).collect();
        for batch in offsets.chunks(BATCH) {
            if let Way::Send = way {
                for &offset in batch {
                    self.socket.send(&self.memory.as_slice()[offset..offset + DATAGRAM])?;
                }
            } else {
                self.send_batch(batch, way)?;
            }
        }
        Ok((usage::of_process() - cpu, begin.elapsed()))
    }

    fn send_batch(&mut self, offsets: &[usize], way: Way) -> io::Result<()> {
        for &offset in offsets {
            let bytes = self.memory.raw().sub(offset, DATAGRAM).as_ptr();
            let (socket, len) = (types::Fixed(0), DATAGRAM as u32);
            let buffer = matches!(way, Way::ZeroCopyFixed).then_some(0);
            // `IORING_SEND_ZC_REPORT_USAGE`
            let zero_copy = opcode::SendZc::new(socket, bytes, len).buf_index(buffer).zc_flags(8);
            let entry = match way {
                Way::Send | Way::Ring => opcode::Send::new(socket, bytes, len).build(),
                Way::ZeroCopy | Way::ZeroCopyFixed => zero_copy.build(),
            };
            // SAFETY: the memory lies beside the ring, and all sends are waited for.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        let mut open = offsets.len();
        while open > 0 {
            self.ring.submit_and_wait(1)?;
            for entry in self.ring.completion() {
                if cqueue::notif(entry.flags()) {
                    self.ended += 1;
                    self.copied += u64::from(entry.result() & i32::MIN != 0);
                } else if entry.result() < 0 {
                    return Err(io::Error::from_raw_os_error(-entry.result()));
                }
                open -= usize::from(!cqueue::more(entry.flags()));
            }
        }
        Ok(())
    }
}
