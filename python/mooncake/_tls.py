"""Certificates for the HTTP servers in Python, from the variables that all members of a pool read."""

from __future__ import annotations

import os
import ssl

CERT_VARIABLE = "MOONCAKE_TLS_CERT"
KEY_VARIABLE = "MOONCAKE_TLS_KEY"
CA_VARIABLE = "MOONCAKE_TLS_CA"
VERIFY_VARIABLE = "MOONCAKE_TLS_VERIFY_CLIENTS"


def of_server() -> ssl.SSLContext | None:
    """What a server speaks TLS with; None if the environment names no certificate.

    Clients must show a certificate of `MOONCAKE_TLS_CA` if `MOONCAKE_TLS_VERIFY_CLIENTS` is 1. The files are read here.
    Raises OSError (of which ssl.SSLError is one) if a file cannot be used, and ValueError if one is missing.
    """
    cert, key = os.environ.get(CERT_VARIABLE, ""), os.environ.get(KEY_VARIABLE, "")
    verifies, ca = os.environ.get(VERIFY_VARIABLE, "0"), os.environ.get(CA_VARIABLE, "")
    if verifies not in ("", "0", "false", "1", "true"):
        raise ValueError(f"{VERIFY_VARIABLE}={verifies!r}: 1 or 0 is wanted")
    if not cert and not key:
        if ca:
            raise ValueError(f"{CA_VARIABLE} is given, and {CERT_VARIABLE} is not: a server shows a certificate")
        return None
    if not (cert and key):
        raise ValueError(f"{CERT_VARIABLE} and {KEY_VARIABLE} belong together: one of them is not given")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert, key)
    if verifies in ("1", "true"):
        if not ca:
            raise ValueError(f"{VERIFY_VARIABLE} is given, and {CA_VARIABLE} is not")
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
