//! What a send without a copy could save at most: datagrams to a card that throws them away, as one that fetches the
//! bytes itself would leave the processor out of it.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, types};
use mooncake_memory::Buffer;

use crate::table::quartiles;
use crate::{link, usage};

/// Bytes of a datagram.
const DATAGRAM: usize = 60_000;

/// Memory that is sent, one datagram after the other: more than the caches hold.
const MEMORY: usize = 64 << 20;

/// Datagrams that are sent by one call.
const BATCH: usize = 16;

/// `SO_EE_CODE_ZEROCOPY_COPIED`.
const ZEROCOPY_COPIED: u8 = 1;

#[derive(Clone, Copy)]
enum Way {
    /// `send`, one call each.
    Send,
    /// The same without a copy (`MSG_ZEROCOPY`).
    SendZeroCopy,
    /// Plain sends of a ring.
    Ring,
    /// Sends without a copy.
    ZeroCopy,
    /// The same from registered memory.
    ZeroCopyFixed,
}

const WAYS: [(&str, Way); 5] = [
    ("send", Way::Send),
    ("send, zero copy", Way::SendZeroCopy),
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
        let on = 1_i32;
        // SAFETY: the option is a number, which outlives the call.
        let result = unsafe {
            let (value, len) = ((&raw const on).cast(), size_of_val(&on) as libc::socklen_t);
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ZEROCOPY, value, len)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(64)?;
        ring.submitter().register_files(&[socket.as_raw_fd()])?;
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
                self.send_each(batch, 0)?;
            } else if let Way::SendZeroCopy = way {
                self.send_each(batch, libc::MSG_ZEROCOPY)?;
                self.wait_for_ends(batch.len() as u64)?;
            } else {
                self.send_batch(batch, way)?;
            }
        }
        Ok((usage::of_process() - cpu, begin.elapsed()))
    }

    fn send_each(&self, offsets: &[usize], flags: i32) -> io::Result<()> {
        for &offset in offsets {
            let bytes = self.memory.raw().sub(offset, DATAGRAM);
            // SAFETY: the memory lives as long as `self`, and all sends are waited for.
            let sent = unsafe {
                libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), DATAGRAM, flags)
            };
            if sent < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Takes what the kernel tells of sends without a copy out of the socket's error queue: runs of them.
    fn wait_for_ends(&mut self, mut open: u64) -> io::Result<()> {
        while open > 0 {
            let mut control = [0_u64; 16];
            // SAFETY: a msghdr is plain numbers and pointers; all zero means no address and no pieces.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            let socket = self.socket.as_raw_fd();
            // SAFETY: the message names the control data alone, which outlives the call.
            let result = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_ERRQUEUE) };
            if result < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::WouldBlock {
                    continue;
                }
                return Err(error);
            }
            // SAFETY: the kernel has filled the control data with a header and, as one was asked for, an extended error.
            let end = unsafe {
                let header = libc::CMSG_FIRSTHDR(&raw const message);
                libc::CMSG_DATA(header).cast::<libc::sock_extended_err>().read_unaligned()
            };
            let count = u64::from(end.ee_data.wrapping_sub(end.ee_info)) + 1;
            self.ended += count;
            self.copied += if end.ee_code == ZEROCOPY_COPIED { count } else { 0 };
            open = open.saturating_sub(count);
        }
        Ok(())
    }

    fn send_batch(&mut self, offsets: &[usize], way: Way) -> io::Result<()> {
        for &offset in offsets {
            let bytes = self.memory.raw().sub(offset, DATAGRAM).as_ptr();
            let (socket, len) = (types::Fixed(0), DATAGRAM as u32);
            let buffer = matches!(way, Way::ZeroCopyFixed).then_some(0);
            // `IORING_SEND_ZC_REPORT_USAGE`
            let zero_copy = opcode::SendZc::new(socket, bytes, len).buf_index(buffer).zc_flags(8);
            let entry = match way {
                Way::Ring => opcode::Send::new(socket, bytes, len).build(),
                _ => zero_copy.build(),
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
