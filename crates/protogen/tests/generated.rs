//! `crates/wire/src/generated.rs` is what prost-build makes of `proto/mooncake.proto`. It is checked in, so that a build
//! needs neither a protobuf compiler nor a build script.

use std::fs;
use std::path::Path;

#[test]
fn the_generated_code_is_that_of_the_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checked_in = root.join("crates/wire/src/generated.rs");
    let generated = generate(&root.join("proto"));
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&checked_in, &generated).expect("the source tree is writable");
    }
    let found = fs::read_to_string(&checked_in).expect("the generated code is checked in");
    assert!(
        found == generated,
        "crates/wire/src/generated.rs is not what proto/mooncake.proto says: \
         run this test with UPDATE_GENERATED=1"
    );
}

fn generate(proto_dir: &Path) -> String {
    let schema = protox::compile(["mooncake.proto"], [proto_dir]).expect("the schema is sound");
    let module = prost_build::Module::from_protobuf_package_name("mooncake");
    let requests = schema.file.into_iter().map(|file| (module.clone(), file)).collect();
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    let mut code = config.generate(requests).expect("the schema has a translation");
    code.remove(&module).expect("the schema is of package mooncake")
}
