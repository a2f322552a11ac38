//! Another process, in which a target lends memory. It is this test program again, which does what it reads from its
//! standard input.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_fabric::{
    Access, Address, Batch, Direction, Domain, Exposed, Initiator, Limits, Part, Peer,
    RemoteMemory, Target,
};
use mooncake_memory::{HeldSlice, Region};
use rustix::process::{Pid, Signal, kill_process};

use crate::{fill, local, options, sum};

/// What an answer begins with, since the test harness prints lines, too.
const MARK: &str = "peer: ";

pub(crate) struct PeerProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl PeerProcess {
    /// Starts a process with a target of this provider. Returns the target's address.
    pub(crate) fn start(provider: &str) -> (PeerProcess, Address) {
        let mut child = Command::new(std::env::current_exe().expect("a test is a program"))
            .args(["--exact", "peer::peer_process", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut peer = PeerProcess { child, input, output };
        let address = peer.ask(&format!("open {provider}"));
        (peer, Address::from_bytes(&unhex(&address)).unwrap())
    }

    fn ask(&mut self, request: &str) -> String {
        writeln!(self.input, "{request}").expect("the peer lives");
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the peer ended: {request}");
            if let Some((_, answer)) = line.split_once(MARK) {
                return answer.trim().to_owned();
            }
        }
    }

    /// Exposes memory that is filled by the seed.
    pub(crate) fn expose(&mut self, bytes: usize, access: Access, seed: u64) -> RemoteMemory {
        let descriptor = self.ask(&format!("expose {bytes} {access:?} {seed}"));
        RemoteMemory::from_bytes(&unhex(&descriptor)).unwrap()
    }

    /// The checksum of the memory that was exposed as the nth, from 1 on.
    pub(crate) fn sum(&mut self, number: usize) -> u32 {
        self.ask(&format!("sum {number}")).parse().unwrap()
    }

    /// Makes the key of memory invalid.
    pub(crate) fn revoke(&mut self, number: usize) {
        self.ask(&format!("revoke {number}"));
    }

    /// Makes the process write, and returns before that has ended.
    pub(crate) fn begin_write(
        &mut self,
        to: &Address,
        memory: &RemoteMemory,
        bytes: usize,
        seed: u64,
    ) {
        let (to, memory) = (hex(&to.to_bytes()), hex(&memory.to_bytes()));
        self.ask(&format!("write {to} {memory} {bytes} {seed}"));
    }

    /// Waits until the write has ended, or for this time. Returns its error.
    pub(crate) fn end_write(&mut self, patience: Duration) -> Result<(), String> {
        match self.ask(&format!("written {}", patience.as_millis())).as_str() {
            "" => Ok(()),
            error => Err(error.to_owned()),
        }
    }

    /// Makes the process read, and returns when it is in the middle of that. It goes no further by itself.
    pub(crate) fn begin_read(&mut self, from: &Address, memory: &RemoteMemory, bytes: usize) {
        let (from, memory) = (hex(&from.to_bytes()), hex(&memory.to_bytes()));
        self.ask(&format!("read {from} {memory} {bytes}"));
    }

    /// Makes the process go on with its read. Returns the error.
    pub(crate) fn end_read(&mut self) -> Result<(), String> {
        match self.ask("go on").as_str() {
            "" => Ok(()),
            error => Err(error.to_owned()),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the other process of other tests"]
fn peer_process() {
    let (mut provider, mut target, mut write, mut read) = (None, None, None, None);
    let mut exposed: BTreeMap<usize, (Option<Exposed>, HeldSlice)> = BTreeMap::new();
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["open", name] => {
                provider = Some(name.to_owned());
                let domain = Domain::open(&options(name), Limits::default()).unwrap();
                let opened = target.insert(Target::open(&domain).unwrap());
                hex(&opened.address().to_bytes())
            }
            ["expose", bytes, access, seed] => {
                let region = Region::anonymous(bytes.parse().unwrap()).unwrap();
                fill(region.whole(), seed.parse().unwrap());
                let memory = HeldSlice::whole(Arc::new(region));
                let access = match access {
                    "Read" => Access::Read,
                    "Write" => Access::Write,
                    _ => Access::ReadWrite,
                };
                let opened: &Target = target.as_ref().unwrap();
                let made = opened.expose(memory.clone(), access).unwrap();
                let answer = hex(&made.remote().to_bytes());
                exposed.insert(exposed.len() + 1, (Some(made), memory));
                answer
            }
            ["sum", number] => sum(exposed[&number.parse().unwrap()].1.raw()).to_string(),
            ["revoke", number] => {
                exposed.get_mut(&number.parse().unwrap()).unwrap().0 = None;
                String::new()
            }
            ["write", to, memory, bytes, seed] => {
                let to = Address::from_bytes(&unhex(to)).unwrap();
                let remote = RemoteMemory::from_bytes(&unhex(memory)).unwrap();
                let local = local(bytes.parse().unwrap(), seed.parse().unwrap());
                let (sent, received) = mpsc::channel();
                // It has to post requests until the end, and cannot leave all of them to the other side.
                let limits = Limits { requests: 2, request_bytes: 1 << 20, ..Limits::default() };
                let domain = Domain::open(&options(provider.as_ref().unwrap()), limits).unwrap();
                let initiator = Initiator::open(&domain).unwrap();
                thread::spawn(move || {
                    let there = initiator.connect(&to).unwrap();
                    let parts = [Part { local: local.into(), remote: &remote, offset: 0 }];
                    let batch = there.submit(Direction::Write, &parts).unwrap();
                    sent.send(batch.wait(Instant::now() + Duration::from_secs(10))).unwrap();
                });
                write = Some(received);
                String::new()
            }
            ["written", patience] => {
                let patience = Duration::from_millis(patience.parse().unwrap());
                match write.as_ref().unwrap().recv_timeout(patience) {
                    Ok(Ok(())) => String::new(),
                    Ok(Err(error)) => error.to_string(),
                    Err(error) => error.to_string(),
                }
            }
            ["read", from, memory, bytes] => {
                read = Some(begin_read(provider.as_ref().unwrap(), from, memory, bytes));
                String::new()
            }
            ["go", "on"] => {
                let (batch, _there, _initiator) = read.take().unwrap();
                let ended = batch.wait(Instant::now() + Duration::from_secs(1));
                ended.err().map_or_else(String::new, |error| error.to_string())
            }
            _ => panic!("no such request: {line}"),
        };
        println!("{MARK}{answer}");
    }
}

/// Begins a read, and goes on with it until the first bytes are there.
fn begin_read(provider: &str, from: &str, memory: &str, bytes: &str) -> (Batch, Peer, Initiator) {
    let from = Address::from_bytes(&unhex(from)).unwrap();
    let remote = RemoteMemory::from_bytes(&unhex(memory)).unwrap();
    let mine = local(bytes.parse().unwrap(), 3);
    let limits = Limits { requests: 4, request_bytes: 1 << 20, ..Limits::default() };
    let domain = Domain::open(&options(provider), limits).unwrap();
    let initiator = Initiator::open(&domain).unwrap();
    let there = initiator.connect(&from).unwrap();
    let part = Part { local: mine.clone().into(), remote: &remote, offset: 0 };
    let batch = there.submit(Direction::Read, &[part]).unwrap();
    let before = mine.sub(0, 8).raw().to_vec();
    while mine.sub(0, 8).raw().to_vec() == before {
        // A batch of nothing lets the others move on by one step.
        there.submit(Direction::Read, &[]).unwrap().wait(crate::soon()).unwrap();
    }
    (batch, there, initiator)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}
