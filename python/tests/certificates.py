"""Certificates for the members of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme

VARIABLES = {"cert": "MOONCAKE_TLS_CERT", "key": "MOONCAKE_TLS_KEY", "ca": "MOONCAKE_TLS_CA"}


@dataclass(frozen=True)
class Files:
    """The certificate of a member, its key and the authority."""

    cert: str
    key: str
    ca: str

    def variables(self) -> dict[str, str]:
        return {variable: getattr(self, name) for name, variable in VARIABLES.items()}

    def arguments(self) -> dict[str, str]:
        return {f"tls_{name}": getattr(self, name) for name in VARIABLES}


def issue(authority: trustme.CA, folder: Path) -> Files:
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    files = Files(*(str(folder / name) for name in ("cert.pem", "key.pem", "ca.pem")))
    certificate.cert_chain_pems[0].write_to_path(files.cert)
    certificate.private_key_pem.write_to_path(files.key)
    authority.cert_pem.write_to_path(files.ca)
    return files
