//! The function that finds objects by a pattern.

use std::ffi::{CString, c_char, c_void};

use mooncake_client::{ErrorCode, ObjectLocation};

use crate::guard::{guarded, refuse};
use crate::handle::{self, Handle};
use crate::text::text;

/// `mooncake_range_t`.
#[repr(C)]
struct Range {
    segment: *const c_char,
    endpoint: *const c_char,
    replica: u32,
    offset: u64,
    size: u64,
}

/// `mooncake_object_t`.
#[repr(C)]
struct Object {
    key: *const c_char,
    key_size: usize,
    size: u64,
    ranges: *const Range,
    ranges_count: usize,
}

/// `mooncake_visit_t`.
type Visit = unsafe extern "C" fn(context: *mut c_void, object: *const Object);

/// # Safety
/// The terms of `text`, until the call returns. `visit` may be called with the context, and does not unwind.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_query_by_regex(
    store: Handle,
    pattern: *const c_char,
    visit: Option<Visit>,
    context: *mut c_void,
) -> i64 {
    let name = "mooncake_store_query_by_regex";
    guarded(name, || {
        let client = handle::client(name, store)?;
        // SAFETY: the caller upholds the terms.
        let pattern = unsafe { text(name, "pattern", pattern)? };
        let visit = visit.ok_or_else(|| refuse(name, "visit", "is null"))?;
        let objects = handle::own(&client).list_by_regex(pattern)?;
        for (key, location) in &objects {
            show(key, location, |object| {
                // SAFETY: the caller allows the call, and the object lives until it returns.
                unsafe { visit(context, object) };
            });
        }
        i64::try_from(objects.len()).map_err(|_| ErrorCode::InternalError)
    })
}

/// Calls `visit` with one object in C's form, whose pointers are valid during the call.
fn show(key: &str, location: &ObjectLocation, visit: impl FnOnce(*const Object)) {
    let placed = location.replicas.iter().flat_map(|replica| {
        replica.stripes.iter().map(move |stripe| {
            let segment = c_text(&stripe.segment.name);
            (segment, c_text(&stripe.segment.endpoint), replica.number, stripe)
        })
    });
    let placed: Vec<_> = placed.collect();
    let ranges = placed.iter().map(|(segment, endpoint, replica, stripe)| Range {
        segment: segment.as_ptr(),
        endpoint: endpoint.as_ptr(),
        replica: *replica,
        offset: stripe.offset,
        size: stripe.len,
    });
    let ranges: Vec<Range> = ranges.collect();
    let mut bytes = key.as_bytes().to_vec();
    bytes.push(0);
    visit(&Object {
        key: bytes.as_ptr().cast(),
        key_size: key.len(),
        size: location.len,
        ranges: ranges.as_ptr(),
        ranges_count: ranges.len(),
    });
}

/// A name as a string of C. Names have no zero bytes; one that has is cut there.
fn c_text(name: &str) -> CString {
    let whole = name.split('\0').next().unwrap_or_default();
    CString::new(whole).unwrap_or_default()
}
