//! The command line.

use crate::work::Work;

/// The limit of all counts, so that a typing error does not exhaust the machine.
const MOST: usize = 10_000_000;

/// The options, each given as `--name value`.
pub(crate) struct Arguments {
    /// The RPC address of the master, `host:port`.
    pub(crate) master: String,
    pub(crate) work: Work,
    pub(crate) connections: usize,
    /// How many requests are in flight on each connection.
    pub(crate) in_flight: usize,
    /// How many keys each request names.
    pub(crate) keys: usize,
    /// How many objects are stored before the load.
    pub(crate) objects: usize,
    pub(crate) seconds: usize,
    /// The process id of the master, to report its CPU time.
    pub(crate) master_pid: Option<usize>,
}

impl Arguments {
    /// # Errors
    /// A message that names the option, and which values it accepts.
    pub(crate) fn parse(given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self {
            master: "127.0.0.1:50051".to_owned(),
            work: Work::Exist,
            connections: 1,
            in_flight: 1,
            keys: 1000,
            objects: 100_000,
            seconds: 3,
            master_pid: None,
        };
        let mut given = given;
        while let Some(name) = given.next() {
            let value = given.next().ok_or_else(|| format!("{name} wants a value"))?;
            match name.as_str() {
                "--master" => found.master = value,
                "--work" => found.work = Work::named(&value)?,
                "--connections" => found.connections = count(&name, &value)?,
                "--in-flight" => found.in_flight = count(&name, &value)?,
                "--keys" => found.keys = count(&name, &value)?,
                "--objects" => found.objects = count(&name, &value)?,
                "--seconds" => found.seconds = count(&name, &value)?,
                "--master-pid" => found.master_pid = Some(count(&name, &value)?),
                _ => return Err(format!("there is no option {name}")),
            }
        }
        found.check()
    }

    fn check(self) -> Result<Self, String> {
        let most = mooncake_types::limits::MAX_BATCH_KEYS;
        if self.keys > most || self.keys > self.objects {
            return Err(format!("--keys is at most {most}, and at most --objects"));
        }
        if self.connections > 1024 || self.in_flight > 1024 {
            return Err("--connections and --in-flight are at most 1024".to_owned());
        }
        Ok(self)
    }

    /// How many objects the puts in flight can have at once, beside the stored ones.
    pub(crate) fn spare(&self) -> usize {
        self.connections * self.in_flight * self.keys
    }
}

fn count(name: &str, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("{name} wants a number from 1 to {MOST}, not {value:?}"))
}
