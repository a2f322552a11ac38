//! Single faults of a disk, and their effects.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{CONFIG, bytes, get, name, put, record};
use crate::RecordStore;
use crate::layout::{BLOCK, SEAL_AT, SECTOR, first_block};
use crate::testing::DiskDouble;
use crate::{LogStore, PutError, ReadError};
use mooncake_memory::SliceList;

fn open(power: &DiskDouble) -> (LogStore, Vec<u64>) {
    let mut told = Vec::new();
    let directory = Arc::new(power.directory());
    let disk = LogStore::open(directory, CONFIG, |record| told.push(record.name.grant.counter));
    told.sort_unstable();
    (disk.expect("it opens"), told)
}

#[test]
fn after_a_failed_write_nothing_is_written_and_all_is_read() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    put(&disk, name(1), 5_000).expect("there is room");
    power.fail_in(0);
    let refused = put(&disk, name(2), 5_000).expect_err("the disk fails");
    let PutError::Broken(broken) = refused else { panic!("{refused}") };
    assert_eq!(broken.to_string(), "the disk is broken: Input/output error (os error 5)");
    power.fail_in(u64::MAX);
    assert!(matches!(put(&disk, name(3), 5_000), Err(PutError::Broken(_))), "it stays broken");
    assert_eq!(disk.drop_records(&[name(1)]), Err(broken));
    assert_eq!(get(&disk, name(1), 0, 5_000).expect("it is read"), bytes(name(1), 5_000));
}

#[test]
fn a_disk_that_others_fill_is_full_and_not_broken() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    power.fill(true);
    assert_eq!(put(&disk, name(1), 5_000), Err(PutError::Full));
    assert_eq!(power.numbers(), [] as [u64; 0]);
    power.fill(false);
    put(&disk, name(1), 5_000).expect("there is room again");
    power.fill(true);
    let refused = (2..100).find_map(|number| put(&disk, name(number), 30_000).err());
    assert_eq!(refused, Some(PutError::Full));
    assert_eq!(get(&disk, name(1), 0, 5_000).expect("it is there"), bytes(name(1), 5_000));
}

/// To seal a file takes space, which the file set aside when it was made.
#[test]
fn a_disk_with_no_byte_left_is_lent_on() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    let put_all = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            while put(&disk, name(number), 30_000).is_err() {
                disk.make_room(30_000).expect("no error of space ends a disk");
            }
        }
    };
    put_all(0..12);
    power.fill(true);
    put_all(12..60);
    power.fill(false);
    put_all(60..90);
    assert!(!disk.is_broken());
    let kept = disk.names();
    assert!(kept.len() > 20, "{}", kept.len());
    power.cut();
    power.fill(true);
    let (disk, told) = open(&power);
    assert_eq!(told.len(), kept.len());
    for name in kept {
        assert_eq!(get(&disk, name, 0, 30_000).expect("it is there"), bytes(name, 30_000));
    }
}

#[test]
fn a_flipped_bit_is_an_error_of_its_record_alone() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    (1..=3).for_each(|number| put(&disk, name(number), 5_000).expect("there is room"));
    let number = power.numbers()[0];
    let data = (first_block(CONFIG.file_bytes) + 1) * BLOCK;
    power.damage(number, data as usize + 4_999);
    assert!(matches!(get(&disk, name(1), 0, 5_000), Err(ReadError::Damaged)));
    assert!(matches!(get(&disk, name(1), 10, 10), Err(ReadError::Damaged)), "by its chunk");
    assert!(get(&disk, name(2), 0, 5_000).is_ok());
    // The file is not sealed, so the next start reads its records in full.
    power.kill();
    assert_eq!(open(&power).1, [2, 3]);
}

#[test]
fn of_a_damaged_header_nothing_is_told_and_what_lies_behind_it_is_found() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    (1..=3).for_each(|number| put(&disk, name(number), 5_000).expect("there is room"));
    power.damage(power.numbers()[0], (first_block(CONFIG.file_bytes) * BLOCK) as usize + 40);
    assert!(matches!(get(&disk, name(1), 0, 5_000), Err(ReadError::Damaged)));
    power.cut();
    assert_eq!(open(&power).1, [2, 3]);
}

#[test]
fn a_file_whose_head_is_damaged_is_given_up() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    put(&disk, name(1), 5_000).expect("there is room");
    power.damage(power.numbers()[0], 20);
    power.kill();
    assert_eq!(open(&power).1, [] as [u64; 0]);
    assert_eq!(power.numbers(), [] as [u64; 0]);
}

#[test]
fn bytes_of_an_object_do_not_pass_for_a_record() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    // An object whose bytes hold a record's header that was written for another file of the same log.
    let (forged, _) = record(name(7), 100);
    let mut content = vec![0; 3 * BLOCK as usize];
    let header = forged.encode(12345);
    content[BLOCK as usize..][..header.len()].copy_from_slice(&header);
    let data = mooncake_memory::Buffer::from_vec(content);
    let (mut own, _) = record(name(1), 3 * BLOCK);
    own.checksums = data.raw().chunk_crcs().into();
    disk.put(&own, &SliceList::from(data.raw())).expect("there is room");
    // Its own header is lost, so the scan examines its bytes.
    power.damage(power.numbers()[0], (first_block(CONFIG.file_bytes) * BLOCK) as usize + 40);
    power.kill();
    assert_eq!(open(&power).1, [] as [u64; 0]);
}

#[test]
fn what_cannot_be_a_record_is_refused() {
    let (disk, _) = open(&DiskDouble::new(1));
    let most = disk.longest_record();
    let too_long = put(&disk, name(1), CONFIG.file_bytes).expect_err("it does not fit");
    assert_eq!(too_long, PutError::TooLong { len: CONFIG.file_bytes + BLOCK, most });
    let (good, data) = record(name(1), 100);
    let data = SliceList::from(data.raw());
    for bad in [
        crate::Record { key: "".into(), ..good.clone() },
        crate::Record { key: "x".repeat(5_000).into(), ..good.clone() },
        crate::Record { attributes: vec![0; 70_000].into(), ..good.clone() },
        crate::Record { len: 99, ..good.clone() },
        crate::Record { object_len: 99, ..good.clone() },
        crate::Record { checksums: [1, 2].into(), ..good.clone() },
    ] {
        assert_eq!(disk.put(&bad, &data), Err(PutError::Malformed), "{bad:?}");
    }
    assert_eq!(disk.put(&good, &data), Ok(()));
    assert_eq!(disk.put(&good, &data), Ok(()), "again");
}

/// The records whose numbers these are lie in this file, one behind the other. What each of its sectors costs that
/// cannot be read.
fn cost_of_sector(sector: u64, is_sealed: bool, records: &[u64]) -> Vec<u64> {
    const RECORD_BLOCKS: u64 = 9;
    let block = sector * SECTOR as u64 / BLOCK;
    match block.checked_sub(first_block(CONFIG.file_bytes)) {
        // The marks of dropped records; the head.
        None if block != 1 => records.to_vec(),
        None => vec![],
        // Records of a sealed file are not read at the start.
        Some(_) if is_sealed => vec![],
        Some(block) => records.get((block / RECORD_BLOCKS) as usize).copied().into_iter().collect(),
    }
}

#[test]
fn an_unreadable_sector_costs_the_records_that_lie_there_and_not_the_disk() {
    // The second file is not sealed.
    for (file, records) in [(0, [1, 2, 3]), (1, [4, 5, 6])] {
        for sector in 0..CONFIG.file_bytes / SECTOR as u64 {
            let power = DiskDouble::new(1);
            let (disk, _) = open(&power);
            (1..=6).for_each(|number| put(&disk, name(number), 30_000).expect("there is room"));
            power.cut();
            power.break_sector(power.numbers()[file], sector * SECTOR as u64);
            let (disk, told) = open(&power);
            let lost = cost_of_sector(sector, file == 0, &records);
            let left: Vec<u64> = (1..=6).filter(|number| !lost.contains(number)).collect();
            assert_eq!(told, left, "file {file}, sector {sector}");
            assert!(!lost.is_empty() || file == 0 || told.len() == 6);
            put(&disk, name(7), 30_000).expect("the disk goes on");
            // The sector can be read again, as after a fault of a cable.
            power.mend_sectors();
            power.cut();
            let told = open(&power).1;
            assert_eq!(
                told,
                [&left[..], &[7]].concat(),
                "file {file}, sector {sector}: it is back"
            );
        }
    }
}

#[test]
fn a_disk_of_which_most_cannot_be_read_is_not_opened_and_loses_nothing() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    (1..=20).for_each(|number| put(&disk, name(number), 30_000).expect("there is room"));
    power.cut();
    power.refuse_reads(true);
    let opened = LogStore::open(Arc::new(power.directory()), CONFIG, |_| {});
    assert!(matches!(opened, Err(crate::OpenError::Io(_))));
    power.kill();
    assert_eq!(open(&power).1.len(), 20);
}

#[test]
fn a_file_is_cleaned_although_parts_of_it_cannot_be_read() {
    for at in [SEAL_AT, first_block(CONFIG.file_bytes) * BLOCK, CONFIG.file_bytes - 1] {
        let power = DiskDouble::new(1);
        let (disk, _) = open(&power);
        let puts = (1..).take_while(|&number| put(&disk, name(number), 30_000).is_ok()).count();
        let number = power.numbers()[0];
        (1..=3).for_each(|number| _ = get(&disk, name(number), 0, 30_000).expect("it is read"));
        power.break_sector(number, at);
        let evicted = disk.make_room(30_000).expect("a sector ends no disk");
        assert!(!disk.is_broken() && !power.numbers()[..1].contains(&number), "{at}");
        assert_eq!(disk.usage().records + evicted.len(), puts, "{at}");
        for name in disk.names() {
            assert_eq!(get(&disk, name, 0, 30_000).expect("it is there"), bytes(name, 30_000));
        }
    }
}

#[test]
fn records_whose_headers_the_disk_lost_go_with_their_file() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    let puts = (1..).take_while(|&number| put(&disk, name(number), 30_000).is_ok()).count() as u64;
    let number = power.numbers()[0];
    // The seal, and the header of the first record.
    power.damage(number, SEAL_AT as usize);
    power.damage(number, (first_block(CONFIG.file_bytes) * BLOCK) as usize + 40);
    let mut there: BTreeSet<u64> = (1..=puts).collect();
    for gone in disk.make_room(30_000).expect("the disk works") {
        assert!(there.remove(&gone.grant.counter), "{gone:?} went twice");
    }
    assert!(!there.contains(&1));
    assert!(matches!(get(&disk, name(1), 0, 30_000), Err(ReadError::NotThere)));
    assert_eq!(disk.drop_records(&[name(1)]), Ok(0));
    assert_eq!(disk.usage().records, there.len());
}

#[test]
fn what_is_read_outlives_what_is_not() {
    let power = DiskDouble::new(1);
    let (disk, _) = open(&power);
    let mut number = 0;
    while put(&disk, name(number + 1), 30_000).is_ok() {
        number += 1;
    }
    assert_eq!(put(&disk, name(number + 1), 30_000), Err(PutError::Full));
    get(&disk, name(1), 0, 30_000).expect("it is there");
    let evicted = disk.make_room(30_000).expect("the disk works");
    assert!(!evicted.is_empty() && !evicted.contains(&name(1)), "{evicted:?}");
    assert!(disk.contains(name(1)) && !disk.contains(evicted[0]));
    put(&disk, name(number + 1), 30_000).expect("there is room now");
    assert_eq!(get(&disk, name(1), 0, 30_000).expect("it moved"), bytes(name(1), 30_000));
}
