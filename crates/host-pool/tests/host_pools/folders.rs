use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use mooncake_client::{OpenError, StoreConfig};
use mooncake_ha::{CampaignOutcome, Candidate, Options};
use mooncake_host_pool::HostPool;

use crate::rig::{TestFolder, address, config};

fn reason(folder: &TestFolder) -> String {
    match folder.open(0) {
        Err(OpenError::PoolFolder { path, reason }) => {
            assert_eq!(path, folder.0.display().to_string());
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_folder_is_made_for_its_user_only() {
    let folder = TestFolder::new("made");
    let pool = folder.open(0).expect("it opens");
    let mode = fs::metadata(&folder.0).expect("it was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    drop(pool);
}

#[test]
fn a_folder_that_others_write_to_is_refused() {
    let folder = TestFolder::new("open");
    fs::create_dir_all(&folder.0).expect("a folder");
    fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).expect("it is one's own");
    assert!(reason(&folder).contains("other users may write to it"));
}

#[test]
fn what_is_no_folder_is_refused() {
    let folder = TestFolder::new("file-there");
    fs::write(&folder.0, "").expect("a file");
    let said = reason(&folder);
    assert!(said.contains("exists") || said.contains("not a directory"), "{said}");
    fs::remove_file(&folder.0).expect("it is there");
    let below = TestFolder("/proc/mooncake-pool".into());
    assert!(!reason(&below).is_empty());
}

#[test]
fn a_folder_where_masters_of_the_network_are_elected_is_refused() {
    let folder = TestFolder::new("network");
    fs::create_dir_all(&folder.0).expect("a folder");
    fs::set_permissions(&folder.0, Permissions::from_mode(0o700)).expect("it is one's own");
    let options = Options::new("mooncake_cluster");
    let coordinator = mooncake_ha::connect(&format!("file://{}", folder.0.display()), &options);
    let coordinator = coordinator.expect("good options");
    let candidate = Candidate { address: "10.0.0.5:50051".to_owned() };
    let leads = coordinator.campaign(&candidate, Duration::ZERO).expect("it is there");
    assert!(matches!(leads, CampaignOutcome::Leads(_)), "{leads:?}");
    assert!(reason(&folder).contains("10.0.0.5:50051"));
}

#[test]
fn what_is_damaged_in_a_folder_is_named_and_left_as_it_is() {
    let folder = TestFolder::new("damaged");
    let own = folder.0.join("mooncake_cluster");
    fs::create_dir_all(&own).expect("a folder");
    fs::set_permissions(&folder.0, Permissions::from_mode(0o700)).expect("it is one's own");
    let record = own.join(format!("record.{:020}", 7));
    fs::write(&record, "no record").expect("a file");
    let patience = StoreConfig { rpc_connect_timeout: Duration::from_millis(500), ..config(0) };
    let at = address(&format!("local://{}", folder.0.display()));
    let refused = HostPool::open(&at, patience).expect_err("it cannot be read");
    assert!(refused.to_string().contains("no master leads"), "{refused}");
    assert_eq!(fs::read(&record).expect("it is there"), b"no record");
}

/// A process with another token may not join the pool.
#[test]
fn a_process_with_another_token_is_refused() {
    let folder = TestFolder::new("token");
    let first = folder.open(16 << 20).expect("it opens");
    let other = StoreConfig { auth_token: "other".into(), ..config(0) };
    let at = address(&format!("local://{}", folder.0.display()));
    let refused = HostPool::open(&at, other).expect_err("the token is another");
    assert!(matches!(refused, OpenError::Refused { .. }), "{refused}");
    first.close();
}
