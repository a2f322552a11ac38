//! Certificates for tests of TLS.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// An authority, whose certificates tests trust.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM.
    pub pem: String,
}

/// Where the files of a member of a pool lie.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority's certificate.
    pub ca: PathBuf,
}

impl Authority {
    /// A new authority.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are right");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate that bears these names and addresses, and its key, in PEM.
    ///
    /// # Panics
    /// A name cannot be in a certificate.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> (String, String) {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let params = CertificateParams::new(names).expect("names of hosts");
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("a certificate");
        (made.pem(), key.serialize_pem())
    }

    /// Writes a certificate that bears these names, its key and the authority's certificate into a folder.
    ///
    /// # Panics
    /// The folder cannot be written.
    #[must_use]
    pub fn write(&self, folder: &Path, names: &[&str]) -> CertificateFiles {
        let files = CertificateFiles {
            cert: folder.join("cert.pem"),
            key: folder.join("key.pem"),
            ca: folder.join("ca.pem"),
        };
        let (cert, key) = self.issue(names);
        for (path, text) in [(&files.cert, &cert), (&files.key, &key), (&files.ca, &self.pem)] {
            fs::write(path, text).expect("a folder for tests");
        }
        files
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
