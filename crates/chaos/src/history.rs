//! The calls of clients and their outcomes, as lines of text. What a killed process has written remains.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::monotonic::{SECOND_NS, now_ns};
use crate::value::ValueId;

/// A request that its client gave up may still arrive this long afterwards; a generous bound.
const LATEST_NS: u64 = 60 * SECOND_NS;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Get,
    Put,
    Upsert,
    Remove,
}

impl Call {
    const ALL: [(Call, &'static str); 4] = [
        (Call::Get, "get"),
        (Call::Put, "put"),
        (Call::Upsert, "upsert"),
        (Call::Remove, "remove"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn of_name(name: &str) -> Option<Call> {
        Self::ALL.iter().find(|(_, of)| *of == name).map(|(call, _)| *call)
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Call::Put | Call::Upsert)
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The write or removal succeeded.
    Done,
    /// A get returned this value, with the right bytes.
    Got(ValueId),
    /// The key has no object.
    Missing,
    /// The call failed. A write or removal may still take effect later.
    Failed(String),
    /// A get returned bytes that are no value of this key.
    Wrong(String),
    /// The process ended before the call was answered.
    Unknown,
}

/// A call on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    /// The calling thread: host, number of its start, and number of the thread, with dots between them.
    pub(crate) worker: String,
    pub(crate) call: Call,
    pub(crate) key: String,
    /// The value that a write writes; zero for other calls.
    pub(crate) value: ValueId,
    pub(crate) began_ns: u64,
    /// [`u64::MAX`] if no answer came.
    pub(crate) ended_ns: u64,
    pub(crate) outcome: Outcome,
}

impl Op {
    /// The last moment at which the call may take effect. A request that was given up may arrive after the call has
    /// ended.
    pub(crate) fn latest_effect_ns(&self) -> u64 {
        match &self.outcome {
            Outcome::Failed(code) if code.starts_with("RPC_") => {
                self.ended_ns.saturating_add(LATEST_NS)
            }
            _ => self.ended_ns,
        }
    }

    /// Whether it is unknown if the call changed something.
    pub(crate) fn is_uncertain(&self) -> bool {
        let is_refused = |code: &str| ["OBJECT_", "REPLICA_"].iter().any(|of| code.starts_with(of));
        match &self.outcome {
            Outcome::Failed(code) => self.call != Call::Get && !is_refused(code),
            outcome => *outcome == Outcome::Unknown,
        }
    }

    /// The host of the calling thread.
    pub(crate) fn host(&self) -> &str {
        self.worker.split('.').next().unwrap_or_default()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op { worker, call, key, value, began_ns, ended_ns, outcome } = self;
        write!(f, "{began_ns} to ")?;
        match ended_ns {
            &u64::MAX => write!(f, "(never)")?,
            ended_ns => write!(f, "{ended_ns}")?,
        }
        write!(f, " {worker} {} {key}", call.name())?;
        if *value > 0 {
            write!(f, " value {value:x}")?;
        }
        match outcome {
            Outcome::Got(id) => write!(f, ": got {id:x}"),
            other => write!(f, ": {other:?}"),
        }
    }
}

/// The hosts that hold each value, as the master listed them after its put.
pub(crate) type Holders = BTreeMap<(String, ValueId), Vec<String>>;

/// The history file of a client process.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: File,
    next: AtomicU64,
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> io::Result<Recorder> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Recorder { file, next: AtomicU64::new(0) })
    }

    fn line(&self, line: fmt::Arguments<'_>) {
        // A client without a history is useless.
        (&self.file).write_all(format!("{line}\n").as_bytes()).expect("the history can be written");
    }

    /// Records the beginning of a call, and returns its number.
    pub(crate) fn begin(&self, worker: &str, call: Call, key: &str, value: ValueId) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.line(format_args!("B {id} {} {worker} {} {key} {value}", now_ns(), call.name()));
        id
    }

    /// Records the end of the call with this number.
    pub(crate) fn end(&self, id: u64, outcome: &Outcome) {
        let now = now_ns();
        match outcome {
            Outcome::Done => self.line(format_args!("E {id} {now} done")),
            Outcome::Got(value) => self.line(format_args!("E {id} {now} got {value}")),
            Outcome::Missing => self.line(format_args!("E {id} {now} missing")),
            Outcome::Failed(code) => self.line(format_args!("E {id} {now} failed {code}")),
            Outcome::Wrong(text) => self.line(format_args!("E {id} {now} wrong {text}")),
            Outcome::Unknown => {}
        }
    }

    /// Records the hosts that hold a value.
    pub(crate) fn place(&self, key: &str, value: ValueId, hosts: &[String]) {
        self.line(format_args!("P {key} {value} {}", hosts.join(",")));
    }
}

/// Reads a history that a [`Recorder`] wrote. Its last line may be cut off.
///
/// # Errors
/// The first malformed line.
pub(crate) fn read(text: &str, ops: &mut Vec<Op>, holders: &mut Holders) -> Result<(), String> {
    let mut begun = BTreeMap::new();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    for line in whole.lines() {
        let understood = read_line(line, &mut begun, ops, holders);
        understood.ok_or_else(|| format!("a history has the line {line:?}"))?;
    }
    Ok(())
}

fn read_line(
    line: &str,
    begun: &mut BTreeMap<u64, usize>,
    ops: &mut Vec<Op>,
    holders: &mut Holders,
) -> Option<()> {
    let words: Vec<&str> = line.splitn(7, ' ').collect();
    match words[..] {
        ["B", id, began, worker, call, key, value] => {
            begun.insert(id.parse().ok()?, ops.len());
            ops.push(Op {
                worker: worker.to_owned(),
                call: Call::of_name(call)?,
                key: key.to_owned(),
                value: value.parse().ok()?,
                began_ns: began.parse().ok()?,
                ended_ns: u64::MAX,
                outcome: Outcome::Unknown,
            });
        }
        ["E", id, ended, how, ref rest @ ..] => {
            let op = &mut ops[begun.remove(&id.parse().ok()?)?];
            op.ended_ns = ended.parse().ok()?;
            op.outcome = match how {
                "done" => Outcome::Done,
                "got" => Outcome::Got(rest.first()?.parse().ok()?),
                "missing" => Outcome::Missing,
                "failed" => Outcome::Failed(rest.join(" ")),
                "wrong" => Outcome::Wrong(rest.join(" ")),
                _ => return None,
            };
        }
        ["P", key, value, hosts] => {
            let hosts = hosts.split(',').map(str::to_owned).collect();
            holders.insert((key.to_owned(), value.parse().ok()?), hosts);
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_calls_without_an_answer_are_unknown() {
        let name = format!("mooncake-chaos-history-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let recorder = Recorder::create(&path).expect("a file for tests");
        let outcomes = [
            Outcome::Done,
            Outcome::Got(9),
            Outcome::Missing,
            Outcome::Failed("RPC_FAIL".to_owned()),
            Outcome::Wrong("value 1 of 2 bytes is wrong".to_owned()),
            Outcome::Unknown,
        ];
        for outcome in &outcomes {
            let id = recorder.begin("c1.0.1", Call::Upsert, "key", 5);
            recorder.end(id, outcome);
        }
        recorder.place("key", 5, &["n1".to_owned(), "n2".to_owned()]);
        let text = std::fs::read_to_string(&path).expect("a file for tests") + "B 9 1";
        std::fs::remove_file(&path).expect("a file for tests");
        let (mut ops, mut holders) = (Vec::new(), Holders::new());
        assert_eq!(read(&text, &mut ops, &mut holders), Ok(()));
        let found: Vec<_> = ops.iter().map(|op| op.outcome.clone()).collect();
        assert_eq!(found, outcomes);
        assert!(ops.iter().all(|op| op.began_ns <= op.ended_ns && op.host() == "c1"));
        assert_eq!(ops.last().map(|op| op.ended_ns), Some(u64::MAX));
        let hosts = vec!["n1".to_owned(), "n2".to_owned()];
        assert_eq!(holders, Holders::from([(("key".to_owned(), 5), hosts)]));
        for line in ["", "X 1 2", "E 7 1 done", "B 1 2 w eat key 1"] {
            let refused = read(&format!("{line}\n"), &mut Vec::new(), &mut Holders::new());
            assert_eq!(refused, Err(format!("a history has the line {line:?}")));
        }
    }
}
