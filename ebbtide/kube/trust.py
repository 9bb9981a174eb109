"""Whom to believe at the other end of a TLS connection to the API server."""

import ssl


def server_trust(ca_file: str | None) -> ssl.SSLContext:
    """A client's context from the file as it is now, None for the system's authorities. Raises OSError (SSLError)."""
    context = ssl.create_default_context(cafile=ca_file)
    # Python 3.13 is stricter than every other client here: it refuses authorities without key identifiers, which
    # many clusters have (Go, and so kubectl, accepts them).
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
