//! `top` in a pseudo-terminal: what it paints, and the keys that it takes.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use mooncake_testing::PATIENCE;
use serde_json::json;

use crate::pool::{Pool, fed, mooncake};

const ROWS: u16 = 30;
const COLUMNS: u16 = 120;

/// A command whose terminal is made by `script`, with what its screen shows.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn start(pool: &Pool, args: &str) -> Self {
        let mut command = pool.at_terminal(&format!("rows {ROWS} cols {COLUMNS}"), args);
        command.env("TERM", "xterm");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("script is a part of Debian");
        let keys = child.stdin.take().expect("a pipe");
        let mut output = child.stdout.take().expect("a pipe");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut bytes) {
                shown.lock().expect("no reader panicked").process(&bytes[..len]);
            }
        });
        Self { child, keys, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().expect("no reader panicked").screen().contents()
    }

    /// Waits until the screen is as wanted.
    fn wait(&self, wanted: &str, is_as_wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            if is_as_wanted(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "no {wanted} on\n{text}");
            std::thread::yield_now();
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads");
    }
}

impl Drop for Terminal {
    /// Ends the terminal, and with it the command.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_pool_is_painted_sorted_and_filtered_at_a_terminal() {
    let pool = Pool::start(&[]);
    pool.run_with(&["put", "a"], &[1; 1 << 20]).ok();
    pool.run(&["get", "a"]).ok();
    let node = pool.node.address.clone();
    let mut terminal = Terminal::start(&pool, "top");
    let text = terminal.wait("the object", |text| text.contains("  1 objects"));
    let first = text.lines().next().unwrap_or_default();
    assert!(first.contains(&format!("  leader {}  serving  epoch ", pool.master.rpc)), "{text}");
    assert!(text.contains("  0.4%  1 MB of 256 MB in 1 segment"), "{text}");
    assert!(
        ["hit ratio ", "reads ", "puts ", "evictions ", "requests "]
            .iter()
            .all(|it| text.contains(it)),
        "{text}"
    );
    let row = text.lines().find(|line| line.starts_with(&node)).expect("the node has a row");
    assert!(row.contains("memory") && row.contains("1 MB of 256 MB"), "{text}");
    assert!(text.contains("s sorts (by name)  r turns round  / filters  q ends"), "{text}");
    terminal.press("s");
    terminal.wait("other order", |text| text.contains("(by tier)"));
    terminal.press("/nothing\r");
    let text = terminal.wait("filter", |text| text.contains("(now nothing)"));
    assert!(!text.contains(&node), "{text}");
    terminal.press("/\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\r");
    terminal.wait("the node again", |text| text.contains(&node) && text.contains("/ filters  q"));
    terminal.press("q");
    assert_eq!(terminal.child.wait().expect("our child").code(), Some(0));
}

#[test]
fn problems_are_painted_and_a_leader_that_dies_is_said_and_the_next_one_is_shown() {
    let mut pool = Pool::start(&[]);
    let terminal = Terminal::start(&pool, "top");
    terminal.wait("a leader", |text| text.contains("serving  epoch"));
    pool.node.program.kill();
    let wanted = "its node does not ping; what lies there cannot be read";
    terminal.wait("a problem", |text| {
        text.contains(wanted) && text.contains("start the node again; its log says why it stopped")
    });
    pool.master.program.kill();
    terminal.wait("a failure", |text| text.contains("cannot reach http://"));
    pool.master.start_again();
    terminal.wait("a leader again", |text| text.contains("serving  epoch"));
}

#[test]
fn without_a_terminal_it_prints_lines_of_json_or_says_so() {
    let pool = Pool::start(&[]);
    let lines = pool.run(&["top", "--json", "--count", "2"]).ok().json();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["leader"], pool.master.rpc);
    assert_eq!(lines[0]["segments"][0]["name"], pool.node.address);
    pool.run(&["top"])
        .fails(2, "mooncake top: it needs a terminal; --json prints lines without one\n");
    let nobody = format!("127.0.0.1:{}", mooncake_testing::free_port());
    fed(mooncake(&["top", "--master-http", &nobody]), b"")
        .fails(1, "mooncake top: cannot reach http://");
}

#[test]
fn the_token_of_the_pool_is_sent() {
    let master = mooncake_testing::Master::start(crate::pool::MASTER, &["--auth_token=secret"]);
    let run = |args: &[&str]| {
        let mut command = mooncake(&[&["top", "--json", "--count", "1"], args].concat());
        command.env("MOONCAKE_MASTER_HTTP", &master.admin);
        fed(command, b"")
    };
    run(&[]).fails(1, "mooncake top: the master refused: ");
    let lines = run(&["--auth-token", "secret"]).ok().json();
    assert_eq!((&lines[0]["state"], &lines[0]["objects"]), (&json!("serving"), &json!(0)));
}
