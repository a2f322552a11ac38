//! Compares the generated files of `crates/wire` with `proto/mooncake.proto`: the messages from prost-build, and the
//! fields that a decoder counts first. Both files are checked in, so that a build needs neither a protobuf compiler
//! nor a build script.

mod fields;

use std::fs;
use std::path::{Path, PathBuf};

const PACKAGE: &str = "mooncake";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_messages_are_those_of_the_schema() {
    check("crates/wire/src/generated.rs", &messages());
}

#[test]
fn the_counted_fields_are_those_of_the_schema() {
    let schema = compiler().descriptor_pool();
    check("crates/wire/src/generated_fields.rs", &fields::generate(&schema, PACKAGE));
}

fn check(path: &str, generated: &str) {
    let checked_in = root().join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&checked_in, generated).expect("the source tree is writable");
    }
    let found = fs::read_to_string(&checked_in).expect("the generated code is checked in");
    assert!(
        found == generated,
        "{path} is not what proto/mooncake.proto says: run this test with UPDATE_GENERATED=1"
    );
}

fn compiler() -> protox::Compiler {
    let mut compiler = protox::Compiler::new([root().join("proto")]).expect("the folder is there");
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file("mooncake.proto").expect("the schema is sound");
    compiler
}

fn messages() -> String {
    let module = prost_build::Module::from_protobuf_package_name(PACKAGE);
    let files = compiler().file_descriptor_set().file.into_iter();
    let own = files.filter(|file| file.package() == PACKAGE);
    let requests = own.map(|file| (module.clone(), file)).collect();
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    let mut code = config.generate(requests).expect("the schema has a translation");
    code.remove(&module).expect("the schema is of this package")
}
