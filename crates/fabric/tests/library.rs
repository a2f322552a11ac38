//! Libraries that are missing, too old, or something else.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use mooncake_fabric::testing::{symbols, try_library, try_verbs, verbs_symbols};
use mooncake_fabric::{DeviceError, DeviceOptions, LoadError, OLDEST, Version, devices};

/// A library of this version that has these functions, which do nothing.
fn compile(name: &str, (major, minor): (u32, u32), functions: &[&str]) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("lib{name}-{}.so", std::process::id())),
    );
    let function =
        |name: &&str| format!("int {name}(void) {{ return {}; }}\n", major << 16 | minor);
    fs::write(&source, functions.iter().map(function).collect::<String>()).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .stderr(Stdio::inherit())
        .status()
        .expect("a C compiler is there, as it is for every build");
    assert!(compiled.success());
    library.to_str().unwrap().to_owned()
}

#[test]
fn a_library_that_is_missing_is_an_error_that_says_how_to_install_it() {
    let wanted = DeviceOptions {
        library: Some("/nowhere/libfabric.so.1".into()),
        ..DeviceOptions::default()
    };
    let error = devices(&wanted).unwrap_err();
    assert!(matches!(&error, DeviceError::Load(LoadError::NotThere { .. })), "{error}");
    let text = error.to_string();
    for part in ["/nowhere/libfabric.so.1", "libfabric1", "MC_LIBFABRIC_PATH"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(matches!(try_library("a\0b"), Err(LoadError::NotThere { .. })));
}

#[test]
fn the_missing_function_is_named_whichever_it_is() {
    let all = symbols();
    for missing in &all {
        let others: Vec<&str> = all.iter().copied().filter(|name| name != missing).collect();
        let library = compile(&format!("without-{missing}"), (1, 17), &others);
        let error = LoadError::Lacks { library: library.clone(), function: (*missing).to_owned() };
        assert_eq!(try_library(&library), Err(error));
        fs::remove_file(library).unwrap();
    }
    let other = try_library("libc.so.6").unwrap_err();
    assert!(matches!(other, LoadError::Lacks { .. }), "{other}");
}

#[test]
fn libibverbs_without_dmabufs_is_used() {
    assert!(!verbs_symbols().contains(&"ibv_reg_dmabuf_mr"), "rdma-core 33 lacks it");
    let library = compile("verbs-33", (1, 14), &verbs_symbols());
    assert_eq!(try_verbs(&library), Ok(()));
    fs::remove_file(library).unwrap();
}

#[test]
fn a_version_before_the_oldest_is_refused_and_says_so() {
    for (version, is_good) in [((1, 13), false), ((1, 14), true), ((2, 1), true), ((0, 99), false)]
    {
        let library = compile(&format!("version-{}-{}", version.0, version.1), version, &symbols());
        let found = Version { major: version.0, minor: version.1 };
        let expected = match is_good {
            true => Ok(found),
            false => Err(LoadError::TooOld { library: library.clone(), found }),
        };
        assert_eq!(try_library(&library), expected);
        if let Err(error) = expected {
            assert!(error.to_string().contains(&OLDEST.to_string()), "{error}");
        }
        fs::remove_file(library).unwrap();
    }
}

#[test]
fn the_library_takes_over_no_signals() {
    let caught = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigCgt:")).unwrap().to_owned();
        // Signals of real time are not the library's.
        line[line.len() - 8..].to_owned()
    };
    let before = caught();
    let options = DeviceOptions { provider: Some("tcp".into()), ..DeviceOptions::default() };
    devices(&options).unwrap();
    assert_eq!(caught(), before);
}

#[test]
fn a_process_has_one_library() {
    let named = |name: &str| DeviceOptions {
        library: Some(name.into()),
        provider: Some("tcp".into()),
        ..DeviceOptions::default()
    };
    devices(&named("libfabric.so.1")).unwrap();
    let error = devices(&named("/nowhere.so")).unwrap_err();
    let expected =
        LoadError::OtherInUse { used: "libfabric.so.1".into(), wanted: "/nowhere.so".into() };
    assert_eq!(error, DeviceError::Load(expected));
    let nothing = devices(&DeviceOptions {
        provider: Some("tcp".into()),
        device: Some("nowhere0".into()),
        ..DeviceOptions::default()
    });
    let text = nothing.unwrap_err().to_string();
    assert!(
        text.ends_with("no device for one-sided transfers, provider tcp, device nowhere0"),
        "{text}"
    );
}
