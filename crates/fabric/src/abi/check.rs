//! Compares the bindings with the headers of the installed libfabric, which a C compiler reads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, Stdio};

use super::Layout;
use super::constants::CONSTANTS;
use super::info::INFO_LAYOUTS;
use super::objects::OBJECT_LAYOUTS;

/// What a C program that includes the headers prints: names and numbers.
fn ask_compiler(headers: &[&str], lines: &str) -> BTreeMap<String, u64> {
    let name = format!("mooncake-abi-{}-{}", headers.len(), std::process::id());
    let program = std::env::temp_dir().join(name);
    let mut source = String::from("#include <stdio.h>\n#include <stddef.h>\n");
    for header in headers {
        writeln!(source, "#include <{header}.h>").unwrap();
    }
    write!(source, "int main(void) {{\n{lines}}}\n").unwrap();
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-o"])
        .arg(&program)
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler is there, as it is for every build");
    std::io::Write::write_all(&mut compiler.stdin.take().unwrap(), source.as_bytes()).unwrap();
    assert!(
        compiler.wait().unwrap().success(),
        "libfabric-dev and libibverbs-dev are installed; `make servers` does it"
    );
    let output = Command::new(&program).output().expect("it was just compiled");
    std::fs::remove_file(&program).unwrap();
    let numbers = String::from_utf8(output.stdout).unwrap();
    let parse = |line: &str| {
        let (name, number) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), number.parse().unwrap())
    };
    numbers.lines().map(parse).collect()
}

fn line(lines: &mut String, name: &str, expression: &str) {
    writeln!(lines, "printf(\"{name} %llu\\n\", (unsigned long long) ({expression}));").unwrap();
}

/// Compares layouts and constants with those of the headers. Returns how many numbers were compared.
pub(crate) fn compare(headers: &[&str], layouts: &[&Layout], constants: &[(&str, u64)]) -> usize {
    let (mut lines, mut expected) = (String::new(), BTreeMap::new());
    let mut expect = |lines: &mut String, name: String, expression: &str, number: u64| {
        line(lines, &name, expression);
        assert_eq!(expected.insert(name, number), None);
    };
    for layout in layouts {
        let c_name = layout.c_name;
        if let Some(size) = layout.size {
            expect(&mut lines, c_name.into(), &format!("sizeof(struct {c_name})"), size as u64);
        }
        for &(field, offset, size) in layout.fields {
            let field = field.trim_end_matches('_');
            let place = format!("offsetof(struct {c_name}, {field})");
            expect(&mut lines, format!("{c_name}.{field} at"), &place, offset as u64);
            // In C this one is a union, which later versions may make longer.
            if (c_name, field) != ("fi_bus_attr", "attr") {
                let len = format!("sizeof(((struct {c_name} *) 0)->{field})");
                expect(&mut lines, format!("{c_name}.{field}"), &len, size as u64);
            }
        }
    }
    for &(name, number) in constants {
        expect(&mut lines, name.into(), name, number);
    }
    assert_eq!(ask_compiler(headers, &lines), expected);
    expected.len()
}

#[test]
fn structures_and_constants_are_those_of_the_headers() {
    let headers = ["fabric", "fi_domain", "fi_endpoint", "fi_rma", "fi_cm", "fi_eq", "fi_errno"];
    let headers = headers.map(|header| format!("rdma/{header}"));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let layouts: Vec<&Layout> = INFO_LAYOUTS.iter().chain(OBJECT_LAYOUTS).collect();
    assert!(compare(&headers, &layouts, CONSTANTS) > 150, "nothing was left out");
}
