//! Whole clusters of real processes under faults: three masters, three etcd members, four nodes and six clients. Each
//! runs on a host of its own, which is a network namespace on a common bridge. Processes are killed and paused, and
//! hosts are cut off. Meanwhile the clients record their calls and the answers, which are judged at the end.
//!
//! `make chaos` runs it. Enter at [`run`]. [`fault`] lists the faults, [`workload`] has the calls of clients, and
//! [`check`] judges them.

#![forbid(unsafe_code)]

mod ask;
mod broken;
mod check;
mod cluster;
mod fault;
mod history;
mod monotonic;
mod net;
mod process;
mod report;
mod run;
mod value;
mod workload;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use rustix::process::{Signal, set_parent_process_death_signal};

/// The environment variable that is set after this program was restarted in a user namespace.
const TRIED: &str = "MOONCAKE_CHAOS_UNSHARED";

#[derive(Parser)]
#[command(name = "mooncake-chaos", version)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Run a cluster under faults, and judge what its clients saw.
    Run(run::RunArgs),
    /// Be a program of the cluster that ends with its parent.
    #[command(hide = true)]
    Enter {
        what: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Print what an HTTP server answers.
    #[command(hide = true)]
    Ask { address: String, path: String },
}

#[derive(Parser)]
struct ClientArguments {
    #[command(flatten)]
    workload: workload::WorkloadArgs,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().job {
        Job::Run(args) => {
            become_root();
            run::main(&args)
        }
        Job::Enter { what, args } => return enter(&what, &args),
        Job::Ask { address, path } => ask::main(&address, &path).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mooncake-chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Restarts this program in a user namespace, where most systems allow it to make network namespaces. Returns if that
/// is not needed or not possible.
fn become_root() {
    if std::env::var_os(TRIED).is_some() || net::Network::can_have_namespaces() {
        return;
    }
    let unshare = ["--user", "--map-root-user", "--net", "--mount", "--"];
    let works = Command::new("unshare").args(unshare).arg("true").output();
    if works.is_ok_and(|output| output.status.success()) {
        // `ip netns` names namespaces in `/run`, which only root may write.
        let script = "mount -t tmpfs tmpfs /run && ip link set lo up && exec \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(unshare).args(["sh", "-c", script]).args(std::env::args_os());
        // `exec` returns only if it fails. Hosts are then loopback addresses.
        let _ = command.env(TRIED, "1").exec();
    }
}

fn enter(what: &str, args: &[String]) -> ExitCode {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("mooncake-chaos: this process may outlive the run: {error}");
    }
    broken::obey();
    match what {
        "master" => mooncake_cli::master::main(args),
        "node" => mooncake_cli::client::main(args),
        "client" => {
            let all = std::iter::once("client").chain(args.iter().map(String::as_str));
            match workload::main(&ClientArguments::parse_from(all).workload) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => {
            let [program, args @ ..] = args else { return ExitCode::FAILURE };
            let error = Command::new(program).args(args).exec();
            eprintln!("{program} does not start ({error}); make servers installs it");
            ExitCode::FAILURE
        }
    }
}
