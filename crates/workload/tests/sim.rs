//! `mooncake sim` on a small trace: the files that it writes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mooncake_workload::sim;

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a writable folder");
    folder
}

/// Runs the command, and returns whether it succeeded.
fn run(args: &[&str]) -> bool {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    format!("{:?}", sim::main(&args)) == format!("{:?}", ExitCode::SUCCESS)
}

/// A prompt of two blocks that returns after each request for a block that is used once.
fn write_trace(folder: &Path) -> String {
    let row = |at: u64, ids: String| {
        format!(
            "{{\"timestamp\":{at},\"input_length\":1024,\"output_length\":1,\"hash_ids\":[{ids}]}}\n"
        )
    };
    let hot = |at: u64| row(at * 2_000, "1, 2".to_owned());
    let cold = |at: u64| row(at * 2_000 + 1_000, format!("{}", 100 + at));
    let text: String = (0..20).map(|at| hot(at) + &cold(at)).collect();
    let path = folder.join("trace.jsonl");
    std::fs::write(&path, text).expect("a writable folder");
    path.to_str().expect("a path of text").to_owned()
}

#[test]
fn hits_are_written_as_a_table_values_and_a_plot() {
    let folder = folder("sim-writes");
    let trace = write_trace(&folder);
    let (csv, plot) = (folder.join("hits.csv"), folder.join("hits.svg"));
    let files = [&csv, &plot].map(|path| path.to_str().expect("a path of text").to_owned());
    assert!(run(&[
        "--trace",
        &trace,
        "--pool-bytes",
        "128KiB,256KiB",
        "--lease-ms",
        "10",
        "--policy",
        "lru",
        "--csv",
        &files[0],
        "--plot",
        &files[1],
    ]));
    let csv = std::fs::read_to_string(csv).expect("the values");
    let expected = "\
policy,pool_bytes,pool_blocks,distinct_blocks,requests,blocks,hits,hit_ratio,stranded,evicted,refused
lru,131072,2,22,40,60,10,0.166667,9,39,0
optimum,131072,2,22,40,60,38,0.633333,,,
lru,262144,4,22,40,60,38,0.633333,0,18,0
optimum,262144,4,22,40,60,38,0.633333,,,
";
    assert_eq!(csv, expected);
    let plot = std::fs::read_to_string(plot).expect("the plot");
    assert!(plot.starts_with("<svg ") && plot.ends_with("</svg>\n"), "{plot}");
    assert_eq!(plot.matches("<polyline").count(), 2);
}

#[test]
fn what_cannot_be_read_or_written_is_an_error() {
    let folder = folder("sim-errors");
    let trace = write_trace(&folder);
    assert!(!run(&["--trace", "/nowhere/trace.jsonl"]));
    assert!(!run(&["--trace", &trace, "--csv", "/nowhere/hits.csv"]));
    assert!(!run(&["--trace", &trace, "--pool-bytes", "1"]));
    // Such segments are shorter than a master accepts.
    assert!(!run(&["--trace", &trace, "--block-bytes", "1", "--pool-bytes", "64"]));
}
