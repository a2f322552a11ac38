//! Object stores of clouds, and local folders in their place, as [`Bucket`]s.
//!
//! The crate `object_store` speaks the stores' protocols and retries failed requests. Requests run on the calling
//! thread (`http.rs`), so no request runs between two calls.

mod http;

use std::error::Error as _;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt, stream};
use mooncake_memory::make_owner_folder;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, Error, GetOptions, GetRange, ObjectStore, PutMode, PutOptions, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use self::http::Connector;
use crate::bucket::{Bucket, ListedObject};

/// An object store, and a prefix in it.
#[derive(Clone)]
pub struct Cloud {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Runs the pauses between attempts, and the I/O of folders.
    runtime: Arc<Runtime>,
}

/// Why a URL cannot be opened as an object store.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudError {
    /// The URL names no known kind of store, or no bucket.
    #[error(
        "'{0}' is none of s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX and file:///FOLDER"
    )]
    Url(String),
    /// The configuration in the environment is incomplete or invalid.
    #[error("{url}: {reason}")]
    Config {
        /// The URL that was given.
        url: String,
        /// What is wrong with the configuration.
        reason: String,
    },
}

/// The retry policy. It gives up soon, because callers block meanwhile.
fn retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_millis(500),
            base: 2.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(2),
    }
}

impl Cloud {
    /// Opens the store that a URL names, without sending a request. Keys, regions and addresses come from the
    /// environment.
    ///
    /// # Errors
    /// See [`CloudError`].
    pub fn open(url: &str) -> Result<Cloud, CloudError> {
        let unknown = || CloudError::Url(url.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
        let failed = |reason: String| CloudError::Config { url: url.to_owned(), reason };
        let config = |error: Error| failed(message(&error));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_folder = scheme == "file";
        if bucket.is_empty() != is_folder {
            return Err(unknown());
        }
        let store: Arc<dyn ObjectStore> = match scheme {
            "s3" | "s3a" => {
                let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
                let builder = builder.with_retry(retry()).with_http_connector(Connector);
                Arc::new(builder.build().map_err(config)?)
            }
            "gs" => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
                let builder = builder.with_retry(retry()).with_http_connector(Connector);
                Arc::new(builder.build().map_err(config)?)
            }
            "az" | "azure" | "abfs" => {
                let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket);
                let builder = builder.with_retry(retry()).with_http_connector(Connector);
                Arc::new(builder.build().map_err(config)?)
            }
            "file" => {
                let folder = format!("/{prefix}");
                make_owner_folder(folder.as_ref()).map_err(|error| failed(error.to_string()))?;
                let local = LocalFileSystem::new_with_prefix(folder).map_err(config)?;
                Arc::new(local.with_fsync(true))
            }
            _ => return Err(unknown()),
        };
        let prefix = if is_folder { "" } else { prefix };
        let prefix = Path::parse(prefix).map_err(|error| failed(error.to_string()))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build();
        let runtime = Arc::new(runtime.map_err(|error| failed(error.to_string()))?);
        Ok(Cloud { store, prefix, runtime })
    }

    /// A sub-prefix: the objects below one more part of the name. The part may contain any characters.
    #[must_use]
    pub fn below(&self, part: &str) -> Cloud {
        Cloud { prefix: self.prefix.clone().join(part), ..self.clone() }
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), Path::join)
    }

    fn wait<T>(&self, future: impl Future<Output = Result<T, Error>>) -> io::Result<T> {
        self.runtime.block_on(future).map_err(to_io)
    }

    fn put_as(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> io::Result<()> {
        let (path, options) = (self.path(name), PutOptions::from(mode));
        self.wait(self.store.put_opts(&path, bytes.into(), options)).map(drop)
    }

    fn get_as(&self, name: &str, options: GetOptions) -> io::Result<Vec<u8>> {
        let path = self.path(name);
        self.wait(async { self.store.get_opts(&path, options).await?.bytes().await }).map(Vec::from)
    }
}

impl Bucket for Cloud {
    fn create(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.put_as(name, bytes, PutMode::Create)
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.put_as(name, bytes, PutMode::Overwrite)
    }

    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.get_as(name, GetOptions::default()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            got => got.map(Some),
        }
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let len = range.end - range.start;
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        let bytes = self.get_as(name, options)?;
        if bytes.len() as u64 == len { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        let path = self.path(folder);
        let found: Vec<_> = self.wait(self.store.list(Some(&path)).try_collect())?;
        let named = |it: object_store::ObjectMeta| {
            let name = format!("{folder}/{}", it.location.filename()?);
            Some(ListedObject { name, modified: SystemTime::from(it.last_modified) })
        };
        Ok(found.into_iter().filter_map(named).collect())
    }

    fn remove_all(&self, names: &[String]) -> io::Result<()> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let removed = self.store.delete_stream(stream::iter(paths).boxed());
        let is_error = |removed: Result<Path, Error>| async move {
            match removed {
                Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.wait(removed.map(Ok::<_, Error>).try_for_each(is_error))
    }
}

fn to_io(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, message(&error))
}

/// The texts of an error and of all its causes. The outermost error alone says little.
fn message(error: &Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_name_no_store_are_refused() {
        for url in ["", "bucket", "s3://", "s3:///prefix", "ftp://host/x", "file://host/x"] {
            let refused = Cloud::open(url).err();
            assert_eq!(refused, Some(CloudError::Url(url.to_owned())), "{url}");
        }
    }

    #[test]
    fn a_folder_is_a_bucket() {
        let folder = std::env::temp_dir().join(format!("mooncake-cloud-{}", std::process::id()));
        let cloud = Cloud::open(&format!("file://{}", folder.display())).expect("it is made");
        let bucket = cloud.below("a/cluster").below("node-0");
        bucket.create("journal/1", b"one".to_vec()).expect("it is new");
        let again = bucket.create("journal/1", b"two".to_vec()).expect_err("it is there");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        bucket.put("packs/1", b"0123456789".to_vec()).expect("it is written");
        assert_eq!(bucket.get("journal/1").expect("it is read").as_deref(), Some(&b"one"[..]));
        assert_eq!(bucket.get("journal/2").expect("it is not there"), None);
        assert_eq!(bucket.get_range("packs/1", 2..5).expect("it is read"), b"234");
        let short = bucket.get_range("packs/1", 8..12).expect_err("it ends before");
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        let absent = bucket.get_range("packs/2", 0..1).expect_err("it is not there");
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        let names = |folder| -> Vec<String> {
            let listed = bucket.list(folder).expect("it is listed");
            listed.into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names("journal"), ["journal/1"]);
        assert_eq!(names("nothing"), [] as [&str; 0]);
        let both = ["journal/1".to_owned(), "journal/2".to_owned()];
        bucket.remove_all(&both).expect("one is there");
        assert_eq!(names("journal"), [] as [&str; 0]);
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
