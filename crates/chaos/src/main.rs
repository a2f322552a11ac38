//! Whole clusters of real processes under faults: three masters, three members of etcd, four nodes and six clients, each
//! a host of a network of its own (namespaces, joined by a bridge), are killed, paused and cut off from each other, while
//! the clients write down what they call and what they are answered. At the end all that is judged.
//!
//! `make chaos` runs it. Enter at [`run`]; [`fault`] says what is done, [`workload`] what clients do, [`check`] what must
//! not be.

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

/// Set where this program has tried to become root of a namespace of users.
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

/// Where namespaces of networks cannot be had, they can in a namespace of users, on most systems: starts this program
/// again in one. Returns if that is not needed, or not possible.
fn become_root() {
    if std::env::var_os(TRIED).is_some() || net::Network::can_have_namespaces() {
        return;
    }
    let unshare = ["--user", "--map-root-user", "--net", "--mount", "--"];
    let works = Command::new("unshare").args(unshare).arg("true").output();
    if works.is_ok_and(|output| output.status.success()) {
        // Namespaces are given names in a folder that only root may write to.
        let script = "mount -t tmpfs tmpfs /run && ip link set lo up && exec \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(unshare).args(["sh", "-c", script]).args(std::env::args_os());
        // It returns only if it fails; then hosts are loopback addresses.
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
