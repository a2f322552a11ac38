//! One-sided transfers by `mooncake-fabric` between two processes, for `bench/fabric.py`.
//!
//! `fabric_transfers PROVIDER DEVICE CASE...`: a CASE is OPERATION:BYTES:REQUESTS:ROUNDS, and DEVICE may be empty. A child
//! process lends memory. Prints a line for each case: the case, the median time of a round in us, GB/s, and the lender's
//! processor time for a GB in ms.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_fabric::{
    Access, Address, DeviceOptions, Direction, Domain, Initiator, Limits, Part, Peer, RemoteMemory,
    Target,
};
use mooncake_memory::{HeldSlice, Region};

const MEMORY: usize = 64 << 20;
/// How the child is told that it lends.
const LEND: &str = "lend";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    match &words[..] {
        [_, provider, device, word] if word == LEND => lend(&open(provider, device)?),
        [_, provider, device, cases @ ..] => measure_all(provider, device, cases),
        _ => Err("fabric_transfers PROVIDER DEVICE CASE...".into()),
    }
}

fn open(provider: &str, device: &str) -> Result<Arc<Domain>> {
    let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    let (provider, device) = (named(provider), named(device));
    let options = DeviceOptions { provider, device, ..DeviceOptions::default() };
    Ok(Domain::open(&options, Limits::default())?)
}

fn memory() -> Result<HeldSlice> {
    let region = Region::anonymous(MEMORY as u64)?;
    region.whole().write_from(&vec![1; MEMORY]);
    Ok(HeldSlice::whole(Arc::new(region)))
}

/// Lends memory until the input ends.
fn lend(domain: &Arc<Domain>) -> Result<()> {
    let target = Target::open(domain)?;
    let exposed = target.expose(memory()?, Access::ReadWrite)?;
    for told in [target.address().to_bytes(), exposed.remote().to_bytes()] {
        println!("{}", told.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn measure_all(provider: &str, device: &str, cases: &[String]) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([provider, device, LEND])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let told = child.stdout.take().ok_or("no pipe")?;
    let mut told = BufReader::new(told).lines();
    let mut next = || unhex(&told.next().ok_or("the lender ended")??);
    let (address, remote) = (Address::from_bytes(&next()?)?, RemoteMemory::from_bytes(&next()?)?);
    let domain = open(provider, device)?;
    let initiator = Initiator::open(&domain)?;
    let (peer, local) = (initiator.connect(&address)?, memory()?);
    for case in cases {
        measure(&peer, &local, &remote, &child, case)?;
    }
    drop(child.stdin.take());
    child.wait()?;
    Ok(())
}

fn measure(
    peer: &Peer,
    local: &HeldSlice,
    remote: &RemoteMemory,
    lender: &Child,
    case: &str,
) -> Result<()> {
    let words: Vec<&str> = case.split(':').collect();
    let [operation, bytes, requests, rounds] = words[..] else { return Err(case.into()) };
    let direction = if operation == "read" { Direction::Read } else { Direction::Write };
    let (bytes, requests, rounds): (usize, usize, usize) =
        (bytes.parse()?, requests.parse()?, rounds.parse()?);
    let (windows, mut window) = (MEMORY / bytes, 0);
    let mut round = || -> Result<Duration> {
        let parts: Vec<Part<'_>> = (0..requests)
            .map(|_| {
                let at = window % windows * bytes;
                window += 1;
                Part { local: local.sub(at, bytes).into(), remote, offset: at as u64 }
            })
            .collect();
        let begun = Instant::now();
        peer.submit(direction, &parts)?.wait(begun + Duration::from_secs(30))?;
        Ok(begun.elapsed())
    };
    for _ in 0..=rounds / 10 {
        round()?;
    }
    let before = processor_time(lender)?;
    let mut spent = (0..rounds).map(|_| round()).collect::<Result<Vec<_>>>()?;
    let lent = (processor_time(lender)? - before).as_secs_f64();
    let gigabytes = (bytes * requests * rounds) as f64 / 1e9;
    let total: Duration = spent.iter().sum();
    spent.sort_unstable();
    let median = spent[rounds / 2].as_secs_f64() * 1e6;
    let (rate, lent) = (gigabytes / total.as_secs_f64(), lent * 1e3 / gigabytes);
    println!("{case} {median:.2} {rate:.3} {lent:.1}");
    io::stdout().flush()?;
    Ok(())
}

/// The processor time that all threads of a process have used.
fn processor_time(process: &Child) -> Result<Duration> {
    let mut total = 0;
    for thread in std::fs::read_dir(format!("/proc/{}/task", process.id()))? {
        let times = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        total += times.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = |at: usize| text.get(at..at + 2).ok_or("half a byte");
    (0..text.len()).step_by(2).map(|at| Ok(u8::from_str_radix(digits(at)?, 16)?)).collect()
}
