//! The file in which a pool gives tokens of their own to members that may do less than others.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mooncake_types::{Access, NotATenant, Rights, Tenant, limits};
use tracing::{info, warn};

/// How often the file is looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Begins the word that binds a token to tenants.
const TENANTS: &str = "tenants=";

/// Most tokens in a file. Each greeting is compared with all of them.
const MAX_TOKENS: usize = 1000;

/// Tokens, and what those may do who know them.
pub type Tokens = Arc<[(String, Access)]>;

/// A file with a line for each token: what its holder may do, the tenants whose keys it may name if those are not all,
/// and the token, as in `read,write tenants=blue,red SECRET`. Empty lines and those that begin with `#` say nothing. It is
/// read again when it changes.
#[derive(Clone)]
pub struct Roles(Arc<RolesFile>);

struct RolesFile {
    path: PathBuf,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    tokens: Tokens,
    seen: Option<(SystemTime, u64)>,
    looked: Instant,
}

/// Why a file cannot be used. It names no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}", path = path.display())]
pub struct RolesError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

impl Roles {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, others may write it, or a line is wrong.
    pub fn open(path: &Path) -> Result<Self, RolesError> {
        let loaded = Loaded { seen: seen(path), tokens: load(path)?, looked: Instant::now() };
        Ok(Self(Arc::new(RolesFile { path: path.to_owned(), loaded: Mutex::new(loaded) })))
    }

    /// The tokens, as they were in the file a second ago at the earliest. A file that cannot be used changes nothing.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        let RolesFile { path, loaded } = &*self.0;
        let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked.elapsed() >= LOOK_EVERY {
            loaded.looked = Instant::now();
            let seen = seen(path);
            if seen != loaded.seen {
                loaded.seen = seen;
                match load(path) {
                    Ok(tokens) => {
                        info!(tokens = tokens.len(), "the tokens were read again");
                        loaded.tokens = tokens;
                    }
                    Err(error) => warn!(%error, "new tokens cannot be used: the former ones stay"),
                }
            }
        }
        Arc::clone(&loaded.tokens)
    }
}

/// Two are equal if they are of one file.
impl PartialEq for Roles {
    fn eq(&self, other: &Self) -> bool {
        self.0.path == other.0.path
    }
}

impl Eq for Roles {}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Roles").field(&self.0.path).finish()
    }
}

fn seen(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}

fn load(path: &Path) -> Result<Tokens, RolesError> {
    let wrong = |reason: String| RolesError { path: path.to_owned(), reason };
    let unread = |error: std::io::Error| wrong(format!("it cannot be read: {error}"));
    // The opening of a pipe waits for its writer.
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err(wrong("it is no file".to_owned()));
    }
    let file = File::open(path).map_err(unread)?;
    if file.metadata().map_err(unread)?.mode() & 0o022 != 0 {
        return Err(wrong("other users may write it; take that right from them".to_owned()));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(unread)?;
    let lines = text.lines().map(str::trim).enumerate();
    let told = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut lines_of: HashMap<String, usize> = HashMap::new();
    let tokens = told.map(|(at, line)| {
        let (token, access) =
            parse(line).map_err(|reason| wrong(format!("line {}: {reason}", at + 1)))?;
        match lines_of.insert(token.clone(), at + 1) {
            None => Ok((token, access)),
            Some(first) => {
                Err(wrong(format!("line {}: the token stands in line {first} already", at + 1)))
            }
        }
    });
    let tokens: Tokens = tokens.collect::<Result<_, _>>()?;
    match tokens.len() {
        0 => Err(wrong("it holds no token".to_owned())),
        len if len > MAX_TOKENS => Err(wrong(format!("it holds more than {MAX_TOKENS} tokens"))),
        _ => Ok(tokens),
    }
}

/// Reads a line. The error does not repeat it, since it holds a secret.
fn parse(line: &str) -> Result<(String, Access), String> {
    let incomplete = "it must be what the holder may do, and then the token";
    let (rights, rest) = line.split_once(char::is_whitespace).ok_or(incomplete)?;
    let rights = rights.parse::<Rights>().map_err(|_| {
        "it begins with something else than read, write, admin, metrics or all, with commas between them"
    })?;
    let rest = rest.trim_start();
    let (access, token) = match rest.strip_prefix(TENANTS) {
        None => (Access::of(rights), rest),
        Some(bound) => {
            let (names, token) = bound.split_once(char::is_whitespace).ok_or(incomplete)?;
            (within(rights, names)?, token.trim_start())
        }
    };
    match token.len() <= limits::MAX_NAME_BYTES {
        true => Ok((token.to_owned(), access)),
        false => Err(format!("the token has more than {} bytes", limits::MAX_NAME_BYTES)),
    }
}

/// What a token allows that is bound to the tenants of these names.
fn within(rights: Rights, names: &str) -> Result<Access, String> {
    let named = |name: &str| if name.is_empty() { Err(NotATenant) } else { Tenant::named(name) };
    let tenants = names.split(',').map(named).collect::<Result<_, _>>();
    let tenants = tenants.map_err(|wrong| format!("{TENANTS} names no tenant: {wrong}"))?;
    Access::within(rights, tenants)
        .map_err(|_| format!("a token with {TENANTS} has no other rights than read and write"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(name: &str, text: &str, mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mooncake-{name}-{}", std::process::id()));
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our own file");
        path
    }

    #[test]
    fn a_line_gives_a_token_its_rights() {
        let path = file("roles", "# engines\nread,write  one \n\nmetrics two\n", 0o600);
        let roles = Roles::open(&path).expect("a good file");
        let (one, two) = (Access::of(Rights::READ | Rights::WRITE), Access::of(Rights::METRICS));
        assert_eq!(*roles.tokens(), [("one".to_owned(), one), ("two".to_owned(), two)]);
        fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn a_line_binds_a_token_to_tenants() {
        let path =
            file("bound-roles", "read  tenants=blue,default \t one\nread tenants= two", 0o600);
        let error = Roles::open(&path).expect_err("a tenant has a name").to_string();
        assert!(error.contains("line 2: tenants= names no tenant"), "{error}");
        fs::write(&path, "read  tenants=blue,default \t one").expect("our own file");
        let roles = Roles::open(&path).expect("a good file");
        let tenants = ["blue", "default"].map(|name| Tenant::named(name).expect("a name"));
        let bound = Access::within(Rights::READ, tenants.to_vec()).expect("it may be bound");
        assert_eq!(*roles.tokens(), [("one".to_owned(), bound)]);
        fs::remove_file(path).expect("it is there");
    }

    #[test]
    fn a_file_that_is_wrong_or_that_others_may_write_is_refused_without_showing_a_token() {
        for (text, mode, reason) in [
            ("read secret", 0o622, "other users may write it"),
            ("secret", 0o600, "line 1: it must be what"),
            ("# a\nsecret secret", 0o600, "line 2: it begins with something else"),
            ("read tenants=blue", 0o600, "line 1: it must be what"),
            ("all tenants=blue secret", 0o600, "no other rights than read and write"),
            ("read tenants=blue,_x secret", 0o600, "a tenant has a name"),
            ("# nothing", 0o600, "it holds no token"),
            (
                "read,write secret\n\nread secret",
                0o600,
                "line 3: the token stands in line 1 already",
            ),
        ] {
            let path = file("wrong-roles", text, mode);
            let error = Roles::open(&path).expect_err(text).to_string();
            assert!(error.contains(reason) && !error.contains("secret"), "{error}");
            fs::remove_file(path).expect("it is there");
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let error = Roles::open(&std::env::temp_dir()).expect_err("a folder").to_string();
        assert!(error.contains("it is no file"), "{error}");
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_one_that_breaks_is_not() {
        let path = file("changing-roles", "read one", 0o600);
        let roles = Roles::open(&path).expect("a good file");
        let until = Instant::now() + Duration::from_secs(20);
        fs::write(&path, "nonsense").expect("our own file");
        std::thread::sleep(LOOK_EVERY);
        assert_eq!(roles.tokens()[0].0, "one");
        fs::write(&path, "read another").expect("our own file");
        while roles.tokens()[0].0 != "another" {
            assert!(Instant::now() < until, "the file is not read again");
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::remove_file(path).expect("it is there");
    }
}
