//! Gives the library a name for the loader, so that a program that was linked to it by path finds it elsewhere. And
//! keeps the C functions of other crates out of its names, so that they do not replace those of a program.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmooncake_store.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
