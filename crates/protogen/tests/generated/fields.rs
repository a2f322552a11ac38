//! The fields of each message that need far more memory than bytes on the wire: sub-messages, and lists of elements
//! with a length each. The option `most` of such a list sets its limit.

use std::collections::BTreeMap;
use std::fmt::Write;

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

const HEAD: &str = "\
// Written by `crates/protogen` from `proto/mooncake.proto`.

use mooncake_types::limits;

use crate::field::Field;
";

pub(crate) fn generate(schema: &DescriptorPool, package: &str) -> String {
    let own = schema.all_messages().filter(|message| message.package_name() == package);
    let own = own.filter(|message| counted(message).next().is_some());
    let messages: BTreeMap<String, MessageDescriptor> =
        own.map(|message| (module_of(&message), message)).collect();
    let most_fields = messages.values().map(|message| counted(message).count()).max();
    let mut code = HEAD.to_owned();
    let most_fields = most_fields.expect("the schema has messages");
    writeln!(code, "\n/// The most of these fields that one message has.").expect("into a String");
    writeln!(code, "pub(crate) const MOST_FIELDS: usize = {most_fields};").expect("into a String");
    for (module, message) in &messages {
        write_module(&mut code, module, message).expect("into a String");
    }
    code
}

fn write_module(code: &mut String, module: &str, message: &MessageDescriptor) -> std::fmt::Result {
    let name = message.name();
    writeln!(code, "\n/// `{name}`.\npub(crate) mod {module} {{\n    use super::*;")?;
    for field in counted(message) {
        let (number, name) = (field.number(), field.name());
        let constant = name.to_uppercase();
        let (limit, fields) = (limit(&field), fields_of(&field));
        writeln!(
            code,
            "    pub(crate) const {constant}: Field = \
             Field {{ number: {number}, name: \"{name}\", limit: {limit}, fields: {fields} }};"
        )?;
    }
    let all: Vec<String> = counted(message).map(|field| field.name().to_uppercase()).collect();
    writeln!(code, "    pub(crate) const FIELDS: &[Field] = &[{}];\n}}", all.join(", "))
}

/// The fields that are counted.
fn counted(message: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> {
    message.fields().filter(|field| match field.kind() {
        Kind::Message(_) => true,
        Kind::Bytes | Kind::String => field.is_list(),
        _ => false,
    })
}

/// A sub-message may appear once: Protobuf merges repeated ones, and their lists could exceed the limit.
fn limit(field: &FieldDescriptor) -> String {
    if !field.is_list() {
        return "1".to_owned();
    }
    let options = field.options();
    let most = options.extensions().find(|(extension, _)| extension.name() == "most");
    let (_, most) = most.unwrap_or_else(|| panic!("{} has no option `most`", field.full_name()));
    format!("limits::{} as usize", most.as_str().expect("the option is a string"))
}

fn fields_of(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(message) if counted(&message).next().is_some() => {
            format!("{}::FIELDS", module_of(&message))
        }
        _ => "&[]".to_owned(),
    }
}

/// `PutStartRequest` becomes `put_start_request`.
fn module_of(message: &MessageDescriptor) -> String {
    let mut module = String::new();
    for (at, letter) in message.name().char_indices() {
        if letter.is_uppercase() && at > 0 {
            module.push('_');
        }
        module.extend(letter.to_lowercase());
    }
    module
}
