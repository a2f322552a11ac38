use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::followed::{SLACK, a_killed_leader_is_replaced, a_paused_leader_is_fenced};
use crate::surroundings::Folder;
use mooncake_testing::{PATIENCE, free_port};

/// How often a start is tried, since another process may take a free port first.
const ATTEMPTS: usize = 3;

/// A Redis server without persistence. Dropping it kills it.
struct Redis {
    child: Child,
    port: u16,
    _folder: Folder,
}

impl Redis {
    fn start() -> Redis {
        (0..ATTEMPTS).find_map(|_| Self::try_to_start()).expect("Redis runs")
    }

    fn try_to_start() -> Option<Redis> {
        let (folder, port) = (Folder::new("redis"), free_port());
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.arg("--dir").arg(folder.path()).args(["--save", "", "--appendonly", "no"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("Redis does not start ({error}); install it: apt-get install redis-server")
        });
        let mut redis = Redis { child, port, _folder: folder };
        redis.is_up().then_some(redis)
    }

    fn is_up(&mut self) -> bool {
        let begun = Instant::now();
        while !self.answers() {
            if self.child.try_wait().expect("our child").is_some() {
                return false;
            }
            assert!(begun.elapsed() < PATIENCE, "Redis does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut answer = [0; 7];
        stream.write_all(b"PING\r\n").is_ok() && stream.read(&mut answer).is_ok_and(|len| len > 0)
    }

    fn cluster(&self) -> Cluster {
        Cluster::at(format!("redis://127.0.0.1:{}", self.port))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn redis_has_a_killed_leader_replaced_and_the_client_follows() {
    let redis = Redis::start();
    a_killed_leader_is_replaced(redis.cluster(), SLACK);
}

#[test]
fn redis_has_a_paused_leader_replaced_and_it_does_nothing_late() {
    let redis = Redis::start();
    a_paused_leader_is_fenced(redis.cluster());
}
