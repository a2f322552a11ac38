//! Engines that reach each other one-sided: over the provider `tcp` of libfabric on the loopback interface, and over two
//! NICs of a double of libibverbs.

use std::time::{Duration, Instant};

use mooncake_device_double::control as gpu;
use mooncake_engine::{Engine, EngineConfig, MoveError, Opcode};
use mooncake_fabric::testing::use_verbs;
use mooncake_transfer::{DeviceWish, FabricOptions, TransferError, VerbsOptions};
use mooncake_verbs_double::control;

use crate::rig::{address, config, engine, fill, memory, move_one, pattern, piece};
use crate::streams::{on_device, turn};

/// The libraries.
#[derive(Clone, Copy, Debug)]
enum Net {
    Libfabric,
    Verbs,
}

const NETS: [Net; 2] = [Net::Libfabric, Net::Verbs];

impl Net {
    fn engine(self, ways: &str) -> Engine {
        let wish = match self {
            Net::Libfabric => {
                let (provider, device) = (Some("tcp".to_owned()), Some("lo".to_owned()));
                DeviceWish::Fabric(FabricOptions { library: None, provider, device })
            }
            Net::Verbs => {
                use_verbs(mooncake_verbs_double::symbol);
                control::set_nics(&control::usual_nics(2));
                DeviceWish::Nics { nics: VerbsOptions::default(), otherwise: None }
            }
        };
        let fabric = Some((ways.parse().expect("they are ways"), wish));
        Engine::open(EngineConfig { fabric, ..config() }).expect("there is a device")
    }
}

#[test]
fn bytes_go_there_and_back_one_sided_and_short_ones_by_message() {
    for net in NETS {
        let (near, other, far) = (memory(9 << 20), memory(9 << 20), memory(9 << 20));
        let (here, there) = (net.engine("fabric"), net.engine("fabric"));
        // Memory that this process allocated is used in place, as is memory that it registered.
        here.register(near.raw()).expect("free");
        here.register(other.raw()).expect("free");
        there.register(far.raw()).expect("free");
        for (seed, len) in
            [1, 4096, 65_535, 65_536, 70_001, 1 << 20, 9 << 20].into_iter().enumerate()
        {
            let sent = pattern(seed as u64, len);
            near.raw().sub(0, len).write_from(&sent);
            let whole = piece(address(near), address(far), len as u64);
            assert_eq!(move_one(&here, there.name(), Opcode::Write, whole), Ok(()));
            assert_eq!(far.raw().sub(0, len).to_vec(), sent, "{len} bytes written");
            let back = piece(address(other), address(far), len as u64);
            assert_eq!(move_one(&here, there.name(), Opcode::Read, back), Ok(()));
            assert_eq!(other.raw().sub(0, len).to_vec(), sent, "{len} bytes read");
        }
    }
}

#[test]
fn many_pieces_of_all_lengths_go_at_once() {
    const LEN: u64 = 32 << 20;
    for net in NETS {
        let (near, far) = (memory(LEN as usize), memory(LEN as usize));
        let (here, there) = (net.engine("fabric,tcp"), net.engine("fabric,tcp"));
        here.register(near.raw()).expect("free");
        there.register(far.raw()).expect("free");
        let sent = pattern(7, LEN as usize);
        let (mut at, mut pieces) = (0, Vec::new());
        for len in [100, 70_000, 1, 300_000, 65_536, 0].into_iter().cycle() {
            if at + len > LEN {
                break;
            }
            pieces.push(piece(address(near) + at, address(far) + at, len));
            at += len;
        }
        let moved: u64 = pieces.iter().map(|piece| piece.len).sum();
        fill(near, &sent);
        assert_eq!(here.transfer(there.name(), Opcode::Write, &pieces, None), Ok(()));
        let is_there = |bytes: Vec<u8>| bytes[..moved as usize] == sent[..moved as usize];
        assert!(is_there(far.raw().to_vec()), "written");
        fill(near, &vec![0; LEN as usize]);
        assert_eq!(here.transfer(there.name(), Opcode::Read, &pieces, None), Ok(()));
        assert!(is_there(near.raw().to_vec()), "read");
    }
}

#[test]
fn where_a_peer_has_no_device_tcp_is_taken_or_there_is_an_error_that_says_so() {
    for net in NETS {
        let (near, far) = (memory(1 << 20), memory(1 << 20));
        let there = engine();
        there.register(far.raw()).expect("free");
        let whole = piece(address(near), address(far), 1 << 20);
        for (ways, is_reached) in [("fabric,tcp", true), ("fabric", false)] {
            let here = net.engine(ways);
            here.register(near.raw()).expect("free");
            let moved = move_one(&here, there.name(), Opcode::Write, whole);
            assert_eq!(moved.is_ok(), is_reached, "{ways}: {moved:?}");
            if let Err(error) = moved {
                let text = error.to_string();
                assert!(text.contains("only these transports are allowed: fabric"), "{text}");
            }
        }
    }
}

#[test]
fn what_is_not_registered_is_refused_one_sided_too() {
    for net in NETS {
        let (near, far) = (memory(1 << 20), memory(1 << 20));
        let (here, there) = (net.engine("fabric"), net.engine("fabric"));
        here.register(near.raw()).expect("free");
        there.register(far.raw().sub(0, 500_000)).expect("free");
        for opcode in [Opcode::Read, Opcode::Write] {
            let beyond = piece(address(near), address(far) + 400_000, 200_000);
            let refused = move_one(&here, there.name(), opcode, beyond);
            let is_refusal =
                |error: &MoveError| matches!(error, MoveError::Transfer(TransferError::Refused(_)));
            assert!(refused.as_ref().is_err_and(is_refusal), "{opcode:?}: {refused:?}");
            let within = piece(address(near), address(far) + 300_000, 200_000);
            assert_eq!(move_one(&here, there.name(), opcode, within), Ok(()));
        }
    }
}

#[test]
fn memory_that_was_unregistered_is_not_touched_again_by_peers_or_by_this_side() {
    const LEN: usize = 16 << 20;
    for net in NETS {
        let (near, far) = (memory(LEN), memory(LEN));
        let (here, there) = (net.engine("fabric,tcp"), net.engine("fabric,tcp"));
        let marked = pattern(99, LEN);
        let whole = piece(address(near), address(far), LEN as u64);
        for round in 0..20 {
            let (opcode, changed) = match round % 2 {
                0 => (Opcode::Write, far),
                _ => (Opcode::Read, near),
            };
            here.register(near.raw()).expect("free");
            there.register(far.raw()).expect("free");
            std::thread::scope(|scope| {
                let mover = scope.spawn(|| move_one(&here, there.name(), opcode, whole));
                let pause = Instant::now() + Duration::from_micros(round * 500);
                while Instant::now() < pause {
                    std::hint::spin_loop();
                }
                assert_eq!(there.unregister(address(far)), Ok(()), "{opcode:?}");
                assert_eq!(here.unregister(address(near)), Ok(()), "{opcode:?}");
                fill(changed, &marked);
                let _ = mover.join().expect("no panic");
                assert!(changed.raw().to_vec() == marked, "round {round}: touched after that");
            });
        }
    }
}

#[test]
fn memory_of_a_gpu_goes_by_nics_without_a_copy_until_it_is_unregistered() {
    let _turn = turn();
    const LEN: usize = 9 << 20;
    let (near, far) = (on_device(&pattern(1, LEN)), memory(LEN));
    let (here, there) = (Net::Verbs.engine("fabric,tcp"), Net::Verbs.engine("fabric,tcp"));
    there.register(far.raw()).expect("free");
    let whole = piece(near.address(), address(far), LEN as u64);
    here.register(near.slice(0, LEN)).expect("free");
    let before = gpu::calls("execute");
    assert_eq!(move_one(&here, there.name(), Opcode::Write, whole), Ok(()));
    assert!(far.raw().to_vec() == pattern(1, LEN));
    fill(far, &pattern(2, LEN));
    assert_eq!(move_one(&here, there.name(), Opcode::Read, whole), Ok(()));
    assert_eq!(gpu::calls("execute"), before);
    assert!(near.to_vec() == pattern(2, LEN));
    let registered = control::objects()[1];
    here.unregister(near.address()).expect("no transfer uses it");
    assert_eq!(control::objects()[1], registered - 2, "both NICs have forgotten it");
}
