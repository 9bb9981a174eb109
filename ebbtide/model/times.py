"""Times as the API writes them. Here they are epoch seconds."""

from datetime import UTC, datetime


def parse_time(text: object) -> float | None:
    """Epoch seconds of an RFC 3339 time, None for anything else (absent, null, nonsense, without a zone)."""
    if not isinstance(text, str):
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.timestamp() if parsed.tzinfo else None


def format_time(epoch: float) -> str:
    """RFC 3339 in UTC with `Z`; fractions only where there are any."""
    return datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")


def format_micro_time(epoch: float) -> str:
    """RFC 3339 in UTC with exactly six digits of fraction, the only form that the API server takes for a MicroTime."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
