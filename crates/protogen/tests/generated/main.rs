//! Compares the generated files of `crates/wire` with `proto/mooncake.proto`: the messages from prost-build, and the
//! fields that a decoder counts first. And those of `crates/grpc` with `proto/master_service.proto`: the messages and the
//! service, and the description for reflection. All files are checked in, so that a build needs neither a protobuf
//! compiler nor a build script.

mod fields;

use std::fs;
use std::path::{Path, PathBuf};

const PACKAGE: &str = "mooncake";
const SERVICE: &str = "master_service.proto";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_messages_are_those_of_the_schema() {
    check("crates/wire/src/generated.rs", messages());
}

#[test]
fn the_counted_fields_are_those_of_the_schema() {
    let schema = compiler().descriptor_pool();
    check("crates/wire/src/generated_fields.rs", fields::generate(&schema, PACKAGE));
}

#[test]
fn the_service_is_that_of_its_schema() {
    check("crates/grpc/src/generated.rs", service());
    let mut compiler = compiler_of(SERVICE);
    compiler.include_source_info(false);
    check("crates/grpc/src/master_service.bin", compiler.encode_file_descriptor_set());
}

fn check(path: &str, generated: impl AsRef<[u8]>) {
    let checked_in = root().join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&checked_in, generated.as_ref()).expect("the source tree is writable");
    }
    let found = fs::read(&checked_in).expect("the generated code is checked in");
    assert!(
        found == generated.as_ref(),
        "{path} is not what the schema in proto/ says: run this test with UPDATE_GENERATED=1"
    );
}

fn compiler() -> protox::Compiler {
    compiler_of("mooncake.proto")
}

fn compiler_of(schema: &str) -> protox::Compiler {
    let mut compiler = protox::Compiler::new([root().join("proto")]).expect("the folder is there");
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file(schema).expect("the schema is sound");
    compiler
}

/// The messages of the service for gRPC, and the server's half of it.
fn service() -> String {
    // The schema has no package, as in the documentation of the C++ package.
    let module = prost_build::Module::from_protobuf_package_name("");
    let files = compiler_of(SERVICE).file_descriptor_set().file.into_iter();
    let requests = files.map(|file| (module.clone(), file)).collect();
    let mut config = prost_build::Config::new();
    let server = tonic_prost_build::configure().build_client(false);
    config.service_generator(server.service_generator());
    let mut code = config.generate(requests).expect("the schema has a translation");
    code.remove(&module).expect("the schema has messages")
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
