use mooncake_engine::{Field, MoveError, Opcode, Pages, RemoteAccess};

use crate::rig::{address, engine, fill, memory, move_one, pattern, piece};

#[test]
fn fields_of_pages_go_each_to_its_place() {
    let (near, far) = (memory(64 << 10), memory(64 << 10));
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    fill(near, &pattern(3, 64 << 10));
    // Two fields: pages of 1000 and of 2000 bytes here, of 500 and of 700 there.
    let field = |at: u64, local_stride, to: u64, remote_stride, len| Field {
        local: address(near) + at,
        local_stride,
        remote: address(far) + to,
        remote_stride,
        len,
    };
    let fields = vec![field(0, 1000, 0, 500, 500), field(20_000, 2000, 30_000, 700, 600)];
    let (local, remote): (Vec<u64>, Vec<u64>) = ((0..10).collect(), (0..10).rev().collect());
    let pages = Pages::new(local, remote, fields).expect("they fit");
    let (sent, mut expected) = (near.raw().to_vec(), vec![0; 64 << 10]);
    for page in 0..10 {
        let other = 9 - page;
        expected[other * 500..][..500].copy_from_slice(&sent[page * 1000..][..500]);
        expected[30_000 + other * 700..][..600]
            .copy_from_slice(&sent[20_000 + page * 2000..][..600]);
    }
    for size in [0, 1, 7, usize::MAX] {
        fill(far, &vec![0; 64 << 10]);
        assert_eq!(here.transfer_pages(there.name(), Opcode::Write, &pages, size), Ok(()));
        assert!(far.raw().to_vec() == expected, "batches of {size}");
    }
    fill(near, &vec![0; 64 << 10]);
    assert_eq!(here.transfer_pages(there.name(), Opcode::Read, &pages, 3), Ok(()));
    let read = near.raw().to_vec();
    for page in 0..10 {
        assert_eq!(read[page * 1000..][..500], sent[page * 1000..][..500], "page {page}");
        let second = 20_000 + page * 2000;
        assert_eq!(read[second..][..600], sent[second..][..600], "page {page}");
    }
}

#[test]
fn pages_outside_of_registered_memory_are_not_moved() {
    let near = memory(1000);
    let (here, there) = (engine(), engine());
    here.register(near.raw()).expect("free");
    let field =
        Field { local: address(near), local_stride: 100, remote: 8, remote_stride: 8, len: 8 };
    let pages = |local| Pages::new(vec![local], vec![0], vec![field]).expect("no overflow");
    let outside = here.transfer_pages(there.name(), Opcode::Write, &pages(10), 0);
    let start = address(near) + 1000;
    assert_eq!(outside, Err(MoveError::NotRegistered { start, len: 8, written: false }));
    let refused = here.transfer_pages(there.name(), Opcode::Write, &pages(9), 0);
    assert!(matches!(refused, Err(MoveError::Transfer(_))), "{refused:?}");
}

#[test]
fn memory_that_is_closed_to_peers_serves_its_own_process() {
    let (near, far) = (memory(100), memory(100));
    let (here, there) = (engine(), engine());
    here.register_all(&[near.raw().into()], RemoteAccess::Refused).expect("free");
    there.register(far.raw()).expect("free");
    fill(near, &pattern(4, 100));
    let whole = piece(address(near), address(far), 100);
    assert_eq!(move_one(&here, there.name(), Opcode::Write, whole), Ok(()));
    assert_eq!(far.raw().to_vec(), pattern(4, 100));
    let back = piece(address(far), address(near), 100);
    for opcode in [Opcode::Read, Opcode::Write] {
        assert!(move_one(&there, here.name(), opcode, back).is_err(), "{opcode:?} by a peer");
        assert!(
            move_one(&here, here.name(), opcode, piece(address(near), address(near), 1)).is_err()
        );
    }
    assert_eq!(there.first_buffer(here.name()), Ok(0));
}
