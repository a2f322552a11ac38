//! `mooncake man`: man pages, made from the flags of all commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, Parser};
use clap_mangen::Man;

use crate::exit::{self, failure, say};
use crate::mooncake::tree;
use crate::{client, master};

/// What the foot of a page names.
const SOURCE: &str = concat!("mooncake ", env!("CARGO_PKG_VERSION"));

/// Write the man pages of all commands into a folder: mooncake.1, mooncake-get.1 and so on.
///
/// The wheel has them in share/man/man1 below the folder that it is installed in.
#[derive(Debug, Parser)]
#[command(name = "mooncake man", max_term_width = 110)]
pub(crate) struct ManArgs {
    /// The folder. It is made if it is missing.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    let args: ManArgs = match exit::parse("mooncake man", args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    match write(&args.folder) {
        Ok(count) => {
            say(format_args!("{count} pages in {}\n", args.folder.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            failure("mooncake man", &format!("cannot write to {}: {error}", args.folder.display()))
        }
    }
}

/// Writes all pages. Returns their number.
fn write(folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let pages = pages();
    for (name, command) in &pages {
        let mut text = Vec::new();
        let man = Man::new(command.clone()).title(name).source(SOURCE).manual("Mooncake Store");
        man.render(&mut text)?;
        fs::write(folder.join(format!("{name}.1")), text)?;
    }
    Ok(pages.len())
}

/// Each page: its name, and the command that it is about.
fn pages() -> Vec<(String, Command)> {
    let mut tree = tree();
    tree.build();
    let mut pages = vec![("mooncake".to_owned(), tree.clone())];
    let commands = tree.get_subcommands().filter(|command| command.get_name() != "help");
    pages.extend(commands.map(|command| {
        let name = format!("mooncake-{}", command.get_name());
        (name, command.clone())
    }));
    let aliases = [("mooncake_master", master::command()), ("mooncake_client", client::command())];
    pages.extend(aliases.map(|(name, command)| (name.to_owned(), command.name(name))));
    pages
}
