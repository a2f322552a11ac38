//! The network of a run. Each host is a network namespace with one interface, and a bridge in another namespace joins
//! them. Without the right to make namespaces, hosts are loopback addresses, and the network has no faults.

use std::process::{Command, Stdio};

use crate::process::{PREFIX, left_behind};

/// A hardware address that no host has. Packets to it are lost silently.
const NOBODY: &str = "02:00:00:00:00:01";

/// How hosts are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostIsolation {
    Namespaces,
    Loopback,
}

/// The network. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) kind: HostIsolation,
    process: u32,
    hosts: Vec<String>,
    /// Whether the kernel can delay packets (netem).
    pub(crate) delays: bool,
}

impl Network {
    /// Whether this process may make namespaces, and enter them.
    pub(crate) fn can_have_namespaces() -> bool {
        let name = format!("{PREFIX}{}-try", std::process::id());
        let made = ip(&["netns", "add", &name]).is_ok();
        let entered = made && ip(&["netns", "exec", &name, "true"]).is_ok();
        let bridged = entered
            && ip(&["-n", &name, "link", "add", "name", "bridge", "type", "bridge"]).is_ok();
        if made {
            // The namespace was only a trial. If it remains, the next run removes it.
            let _ = ip(&["netns", "del", &name]);
        }
        bridged
    }

    /// # Errors
    /// The text names the command that failed, and the system's message.
    pub(crate) fn new(kind: HostIsolation) -> Result<Network, String> {
        let process = std::process::id();
        let mut network = Network { kind, process, hosts: Vec::new(), delays: false };
        if kind == HostIsolation::Namespaces {
            for name in left_behind("/run/netns") {
                // Another run may have removed it meanwhile.
                let _ = ip(&["netns", "del", &name]);
            }
            network.add_namespace("hub")?;
            let hub = network.namespace("hub");
            ip(&["-n", &hub, "link", "add", "name", "bridge", "type", "bridge"])?;
            ip(&["-n", &hub, "link", "set", "bridge", "up"])?;
            let delay = ["qdisc", "add", "dev", "bridge", "root", "netem", "delay", "0ms"];
            let command: Vec<&str> = ["-n", &hub].into_iter().chain(delay).collect();
            network.delays = run("tc", &command).is_ok();
            if network.delays {
                run("tc", &["-n", &hub, "qdisc", "del", "dev", "bridge", "root"])?;
            }
        }
        Ok(network)
    }

    fn namespace(&self, host: &str) -> String {
        format!("{PREFIX}{}-{host}", self.process)
    }

    /// The address of the host with this number.
    pub(crate) fn address(&self, number: u8) -> String {
        match self.kind {
            HostIsolation::Namespaces => format!("10.88.0.{number}"),
            // Two runs at a time most probably get different addresses.
            HostIsolation::Loopback => {
                format!("127.{}.{}.{number}", 1 + self.process / 256 % 250, self.process % 256)
            }
        }
    }

    /// The interface that leads to the other hosts.
    pub(crate) fn interface(&self) -> &'static str {
        match self.kind {
            HostIsolation::Namespaces => "eth0",
            HostIsolation::Loopback => "lo",
        }
    }

    fn add_namespace(&mut self, host: &str) -> Result<(), String> {
        let name = self.namespace(host);
        ip(&["netns", "add", &name])?;
        self.hosts.push(host.to_owned());
        ip(&["-n", &name, "link", "set", "lo", "up"])
    }

    /// Adds a host of this name.
    pub(crate) fn add_host(&mut self, host: &str, number: u8) -> Result<(), String> {
        if self.kind == HostIsolation::Loopback {
            return Ok(());
        }
        self.add_namespace(host)?;
        let (hub, own) = (self.namespace("hub"), self.namespace(host));
        let pair = ["type", "veth", "peer", "name", "eth0", "netns", &own];
        let add = ["-n", &hub, "link", "add", "name", host];
        ip(&add.into_iter().chain(pair).collect::<Vec<_>>())?;
        ip(&["-n", &hub, "link", "set", host, "master", "bridge", "up"])?;
        let address = format!("{}/24", self.address(number));
        ip(&["-n", &own, "addr", "add", &address, "dev", "eth0"])?;
        ip(&["-n", &own, "link", "set", "eth0", "up"])
    }

    /// A command that runs `program` on a host.
    pub(crate) fn on(&self, host: &str, program: &str) -> Command {
        match self.kind {
            HostIsolation::Loopback => Command::new(program),
            HostIsolation::Namespaces => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &self.namespace(host), program]);
                command
            }
        }
    }

    /// Cuts a host off from all others.
    pub(crate) fn unplug(&self, host: &str) -> Result<(), String> {
        ip(&["-n", &self.namespace("hub"), "link", "set", host, "down"])
    }

    pub(crate) fn plug(&self, host: &str) -> Result<(), String> {
        ip(&["-n", &self.namespace("hub"), "link", "set", host, "up"])
    }

    /// Drops all packets from `host` to this address. The other direction works.
    pub(crate) fn cut(&self, host: &str, address: &str) -> Result<(), String> {
        let own = self.namespace(host);
        let to = ["neigh", "replace", address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent"];
        ip(&["-n", &own].into_iter().chain(to).collect::<Vec<_>>())
    }

    pub(crate) fn mend(&self, host: &str, address: &str) -> Result<(), String> {
        ip(&["-n", &self.namespace(host), "neigh", "del", address, "dev", "eth0"])
    }

    /// Delays packets from a host by `ms`, give or take half of it. Zero ends the delay.
    pub(crate) fn delay(&self, host: &str, ms: u64) -> Result<(), String> {
        let own = self.namespace(host);
        let (delay, spread) = (format!("{ms}ms"), format!("{}ms", ms / 2));
        let queue: &[&str] = match ms {
            0 => &["del", "dev", "eth0", "root"],
            _ => &["replace", "dev", "eth0", "root", "netem", "delay", &delay, &spread],
        };
        run("tc", &[&["-n", &own, "qdisc"], queue].concat())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            if let Err(error) = ip(&["netns", "del", &self.namespace(host)]) {
                eprintln!("{error}");
            }
        }
    }
}

fn ip(args: &[&str]) -> Result<(), String> {
    run("ip", args)
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let failed = |why: String| format!("{program} {}: {}", args.join(" "), why.trim());
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
