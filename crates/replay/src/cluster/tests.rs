use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A folder with shell scripts in place of the programs.
struct Programs(PathBuf);

impl Programs {
    fn new(name: &str, master: &str) -> Programs {
        let folder = std::env::temp_dir().join(format!("mooncake-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let programs = Programs(folder);
        // replay --as-child-of PID -- PROGRAM ...
        programs.script("mooncake", "shift 4; exec \"$@\"");
        if !master.is_empty() {
            programs.script("mooncake_master", master);
        }
        programs
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn start(&self, stop: &Stop) -> ClusterError {
        self.start_with(None, stop)
    }

    fn start_with(&self, disk: Option<PathBuf>, stop: &Stop) -> ClusterError {
        let plan = Plan {
            nodes: 1,
            segment_bytes: 1 << 20,
            lease_ms: 200,
            disk,
            programs: self.0.clone(),
        };
        match Cluster::start(&plan, stop) {
            Ok(_) => panic!("a script is no master"),
            Err(error) => error,
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A single test: a process that another test forks while a script is written would keep the script from running.
#[test]
fn a_cluster_that_cannot_start_says_why() {
    let missing = Programs::new("missing", "");
    let broken = Programs::new("broken", "echo starting; echo 'no such flag' >&2; exit 3");
    let taken = Programs::new(
        "taken",
        "echo x >> \"$(dirname \"$0\")/starts\"; echo 'address in use'; exit 1",
    );
    let silent = Programs::new("silent", "echo $$ > \"$(dirname \"$0\")/pid\"; exec sleep 60");
    let go = Stop::default();

    let program = missing.0.join("mooncake_master");
    assert_eq!(missing.start(&go), ClusterError::Spawn(SpawnError::Missing { program }));

    let folder = missing.0.join("no folder");
    let no_disk = missing.start_with(Some(folder.clone()), &go);
    assert!(matches!(&no_disk, ClusterError::NoDisk { folder: named, .. } if *named == folder));
    assert!(matches!(missing.start_with(Some(missing.0.clone()), &go), ClusterError::Spawn(_)));
    assert_eq!(fs::read_dir(&missing.0).unwrap().count(), 1, "the folder of the disks is gone");

    let error = broken.start(&go).to_string();
    let expected =
        "mooncake_master ended (exit status: 3); its last output:\n  starting\n  no such flag\n";
    assert_eq!(error, expected);

    assert!(matches!(taken.start(&go), ClusterError::Ended { .. }));
    assert_eq!(fs::read_to_string(taken.0.join("starts")).unwrap(), "x\nx\nx\n");

    let stop = Stop::default();
    let watcher = thread::spawn({
        let (stop, file) = (stop.clone(), silent.0.join("pid"));
        move || {
            let deadline = Instant::now() + START_DEADLINE;
            loop {
                let pid = fs::read_to_string(&file).unwrap_or_default();
                if pid.ends_with('\n') || Instant::now() >= deadline {
                    stop.request();
                    return pid.trim().to_owned();
                }
                thread::sleep(POLL);
            }
        }
    });
    assert_eq!(silent.start(&stop), ClusterError::Stopped);
    let pid = watcher.join().unwrap();
    assert!(!pid.is_empty() && !Path::new("/proc").join(&pid).exists(), "{pid} goes on running");
}
