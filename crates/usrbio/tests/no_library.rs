//! A host without the library of 3FS.

use std::fs;

use mooncake_usrbio::{LoadError, Mount, MountError};

#[test]
fn a_folder_on_3fs_says_that_the_library_is_missing() {
    let folder = std::env::temp_dir().join(format!("mooncake-usrbio-none-{}", std::process::id()));
    fs::create_dir_all(folder.join("3fs-virt")).expect("it can be made");
    let error = Mount::find(&folder).expect_err("there is no library");
    fs::remove_dir_all(&folder).expect("it is there");
    assert!(matches!(error, MountError::Load(LoadError::NotThere(_))), "{error}");
    assert!(error.to_string().contains("libhf3fs_api_shared.so"), "{error}");
}
