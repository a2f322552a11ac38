//! The messages with which clients report their read counts.

use mooncake_types::{ReadCounts, ReadReport, ReadVolume};

use crate::generated as proto;

pub(crate) fn from_report(report: &ReadReport) -> proto::ReadReport {
    let (counts, confirmed) = (from_counts(&report.counts), from_counts(&report.confirmed));
    proto::ReadReport { run: report.run, counts: Some(counts), confirmed: Some(confirmed) }
}

pub(crate) fn to_report(message: &proto::ReadReport) -> ReadReport {
    let counts = |message: &Option<proto::ReadCounts>| message.as_ref().map(to_counts);
    let (counts, confirmed) = (counts(&message.counts), counts(&message.confirmed));
    ReadReport {
        run: message.run,
        counts: counts.unwrap_or_default(),
        confirmed: confirmed.unwrap_or_default(),
    }
}

fn from_counts(counts: &ReadCounts) -> proto::ReadCounts {
    proto::ReadCounts {
        get_hits: counts.get_hits,
        get_misses: counts.get_misses,
        exist_hits: counts.exist_hits,
        exist_misses: counts.exist_misses,
        own_objects: counts.own.objects,
        own_bytes: counts.own.bytes,
        host_objects: counts.host.objects,
        host_bytes: counts.host.bytes,
        tcp_objects: counts.tcp.objects,
        tcp_bytes: counts.tcp.bytes,
        disk_objects: counts.disk.objects,
        disk_bytes: counts.disk.bytes,
        shared_disk_objects: counts.shared_disk.objects,
        shared_disk_bytes: counts.shared_disk.bytes,
        object_store_objects: counts.object_store.objects,
        object_store_bytes: counts.object_store.bytes,
        fabric_objects: counts.fabric.objects,
        fabric_bytes: counts.fabric.bytes,
    }
}

fn to_counts(message: &proto::ReadCounts) -> ReadCounts {
    let volume = |objects, bytes| ReadVolume { objects, bytes };
    ReadCounts {
        get_hits: message.get_hits,
        get_misses: message.get_misses,
        exist_hits: message.exist_hits,
        exist_misses: message.exist_misses,
        own: volume(message.own_objects, message.own_bytes),
        host: volume(message.host_objects, message.host_bytes),
        tcp: volume(message.tcp_objects, message.tcp_bytes),
        disk: volume(message.disk_objects, message.disk_bytes),
        shared_disk: volume(message.shared_disk_objects, message.shared_disk_bytes),
        object_store: volume(message.object_store_objects, message.object_store_bytes),
        fabric: volume(message.fabric_objects, message.fabric_bytes),
    }
}
