"""TLS: which certificates of a server are accepted, and which certificate is presented to it.

Since Python 3.13 the default context refuses chains that are not in every detail as RFC 5280 asks: without identifiers
of keys, without the key usage of an authority, or with basic constraints that are not critical. Many clusters have such
chains, and kubectl and Helm accept them. The contexts here do, too. They verify the chain and the name of the host.

This module needs only the standard library.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


@dataclass(frozen=True, slots=True)
class Trust:
    """What the certificate of a server must prove."""

    authority: bytes = b""
    """Certificates in PEM that may sign it; without them, those of the system."""
    server_name: str = ""
    """Name that it must have, if that is not the host's."""
    verified: bool = True


def context(trust: Trust, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
    """Return a context that presents a certificate, if there is one.

    Raises ValueError if one of them cannot be used, and OSError if no temporary file can be written.
    """
    made = ssl.create_default_context(cadata=authority(trust.authority) if trust.authority else None)
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # Any certificate of the authority ends a chain, as with Go and Python 3.13.
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.hostname_checks_common_name = False
    if not trust.verified:
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    if certificate:
        _present(made, certificate, key)
    return made


def authority(pem: bytes) -> str:
    """Return the certificates of an authority, without the text between them. Raises ValueError if one is invalid."""
    found = b"\n".join(_CERTIFICATE.findall(pem)).decode("ascii", "replace")
    if not found:
        raise ValueError("it contains no certificate in PEM format")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found)
    except ssl.SSLError as error:
        raise ValueError(f"it contains a certificate that cannot be read: {reason(error)}") from error
    return found


def refusal(error: BaseException) -> str:
    """Return why a server's certificate was refused, or "" if that did not cause the error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    causes = (each for each in error.args if isinstance(each, BaseException))
    return next(filter(None, map(refusal, causes)), "")


def _present(made: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The standard library reads it only from a file.
    with TemporaryDirectory() as folder:
        file = Path(folder) / "certificate-and-key.pem"
        file.write_bytes(certificate + b"\n" + key)
        try:
            # With a password, so that the library asks for none.
            made.load_cert_chain(file, password="")
        except ssl.SSLError as error:
            raise ValueError(f"certificate and key cannot be used together: {reason(error)}") from error


def reason(error: ssl.SSLError) -> str:
    """Return the reason of an error in plain words."""
    return (error.reason or error.args[-1]).lower().replace("_", " ")
