use std::time::Duration;

use mooncake_ha::{Coordinator, MemoryStore, Options, boot_time};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::{Authority, ClusterSecret, Election, Leader, Role, RoleStatus, StateDir, Term};

const LONG: Duration = Duration::from_secs(20);

fn election(store: &MemoryStore, address: &str) -> Election {
    patient_election(store, address, Duration::ZERO)
}

/// An election whose leader may wait this long for the coordinator.
fn patient_election(store: &MemoryStore, address: &str, suspension: Duration) -> Election {
    let options = Options { ttl: Duration::from_secs(1), suspension, ..Options::new("test") };
    let coordinator = Coordinator::in_memory(store, &options).expect("good options");
    Election::elected(coordinator, address.to_owned(), ClusterSecret::default()).expect("a thread")
}

async fn until_authority(term: &Term, authority: Authority) {
    while term.authority(boot_time::now()) != authority {
        sleep(Duration::from_millis(2)).await;
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { timeout(LONG, test).await.expect("it ends") });
}

async fn until(election: &Election, is: impl Fn(&RoleStatus) -> bool) -> RoleStatus {
    let mut status = election.status();
    status.wait_for(|status| is(status)).await.expect("the election lives").clone()
}

fn leader(term: &Term, address: &str) -> Option<Leader> {
    Some(Leader { address: address.to_owned(), epoch: term.leadership.epoch() })
}

#[test]
fn who_stands_by_leads_when_the_leader_leaves() {
    let store = MemoryStore::default();
    let (mut first, mut second) = (election(&store, "a:1"), None);
    run(async {
        let term = first.term().await;
        assert_eq!(until(&first, |it| it.role == Role::Leader).await.leader, leader(&term, "a:1"));
        let second = second.insert(election(&store, "b:2"));
        let status = until(second, |status| status.role == Role::Standby).await;
        assert_eq!(status.leader, leader(&term, "a:1"));
        first.leave(&term);
        first.close();
        let later = second.term().await;
        assert!(later.leadership.epoch() > term.leadership.epoch());
        second.leave(&later);
    });
    second.expect("it was started").close();
}

#[test]
fn a_leader_that_the_coordinator_does_not_hear_stops_by_itself_and_stands_again() {
    let store = MemoryStore::default();
    let mut election = election(&store, "a:1");
    run(async {
        let term = election.term().await;
        store.set_reachable(false);
        term.over().await;
        election.leave(&term);
        assert_eq!(until(&election, |status| status.role != Role::Leader).await.leader, None);
        store.set_reachable(true);
        let later = election.term().await;
        assert!(later.leadership.epoch() > term.leadership.epoch());
        election.leave(&later);
    });
    election.close();
}

#[test]
fn a_leader_that_the_coordinator_hears_again_goes_on_under_its_epoch() {
    let store = MemoryStore::default();
    let mut election = patient_election(&store, "a:1", LONG);
    run(async {
        let term = election.term().await;
        for _ in 0..2 {
            store.set_reachable(false);
            until_authority(&term, Authority::Suspended).await;
            assert_eq!(until(&election, |_| true).await.leader, leader(&term, "a:1"));
            store.set_reachable(true);
            until_authority(&term, Authority::Leads).await;
        }
        assert_eq!(term.leadership.apply(&[]), Ok(()));
        election.leave(&term);
    });
    election.close();
}

#[test]
fn a_leader_that_was_followed_while_it_waited_leads_no_more() {
    let store = MemoryStore::default();
    let mut election = patient_election(&store, "a:1", LONG);
    run(async {
        let term = election.term().await;
        store.set_reachable(false);
        until_authority(&term, Authority::Suspended).await;
        let mut other = patient_election(&store.another_way(), "b:2", LONG);
        let later = other.term().await;
        assert!(later.leadership.epoch() > term.leadership.epoch());
        assert_eq!(term.authority(boot_time::now()), Authority::Suspended, "it cannot know yet");
        store.set_reachable(true);
        term.over().await;
        assert_eq!(term.authority(boot_time::now()), Authority::Over);
        other.leave(&later);
        election.leave(&term);
        other.close();
    });
    election.close();
}

#[test]
fn a_leader_waits_only_so_long_for_the_coordinator() {
    let store = MemoryStore::default();
    let mut election = patient_election(&store, "a:1", Duration::from_millis(500));
    run(async {
        let term = election.term().await;
        store.set_reachable(false);
        until_authority(&term, Authority::Suspended).await;
        term.over().await;
        assert_eq!(term.authority(boot_time::now()), Authority::Over);
        election.leave(&term);
    });
    election.close();
}

#[test]
fn a_leader_that_was_deposed_knows_with_its_next_renewal() {
    let store = MemoryStore::default();
    let mut election = election(&store, "a:1");
    run(async {
        let term = election.term().await;
        store.depose("test");
        term.over().await;
        election.leave(&term);
    });
    election.close();
}

#[test]
fn a_record_that_cannot_be_written_any_more_is_not_passed_over() {
    let folder = std::env::temp_dir().join(format!("mooncake-record-{}", std::process::id()));
    let dir = StateDir { folder: folder.clone(), is_required: false };
    let lead = || super::alone::term(&dir, "test", 1);
    let first = lead().expect("the folder is writable").leadership.epoch();
    // A folder has the name of the temporary file for the next version.
    let record = folder.join("test/1/members.json");
    let blocked = folder.join("test/1/members.json.new");
    std::fs::create_dir(&blocked).expect("a folder");
    let error = lead().map(|_| ()).expect_err("the record is there");
    assert!(error.to_string().contains("members.json"), "{error}");
    std::fs::remove_file(&record).expect("it is there");
    assert!(!lead().expect("there is nothing to pass over").is_recorded);
    std::fs::remove_dir(&blocked).expect("it is empty");
    assert!(lead().expect("it is writable again").leadership.epoch() >= first);
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_leader_that_stops_does_not_lead_once_more_on_its_way_out() {
    let store = MemoryStore::default();
    let mut election = election(&store, "a:1");
    let mut led = RoleStatus::default();
    run(async {
        let term = election.term().await;
        led = until(&election, |it| it.role == Role::Leader).await;
        election.withdraw();
        election.leave(&term);
        // Without the withdrawal, it would win again at once.
        sleep(Duration::from_millis(100)).await;
    });
    let status = election.status();
    election.close();
    let last = status.borrow().clone();
    assert_eq!((last.role, last.changes), (Role::Candidate, led.changes + 1));
}
