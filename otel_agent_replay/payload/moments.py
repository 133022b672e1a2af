"""Tags of dates with a time and a zone. A zone is more than its offset, so the two are kept apart."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from otel_agent_replay.payload.where import Where

if TYPE_CHECKING:
    from otel_agent_replay.payload.decoding import Decoder
    from otel_agent_replay.payload.encoding import Encoder

Tag = dict[str, Any]


def write_datetime(value: dt.datetime, encoder: Encoder, where: Where) -> Tag:
    """Keep the wall reading, the fold and the zone."""
    return {"$type": "datetime", "value": value.replace(tzinfo=None).isoformat(), **_zone_fields(value, encoder, where)}


def read_datetime(tag: Tag, decoder: Decoder, where: Where) -> dt.datetime:
    """Give the moment back, in its zone."""
    naive = dt.datetime.fromisoformat(tag["value"])
    return naive.replace(tzinfo=_zone(tag, decoder, where), fold=tag.get("fold", 0))


def write_time(value: dt.time, encoder: Encoder, where: Where) -> Tag:
    """Keep the wall reading, the fold and the zone."""
    return {"$type": "time", "value": value.replace(tzinfo=None).isoformat(), **_zone_fields(value, encoder, where)}


def read_time(tag: Tag, decoder: Decoder, where: Where) -> dt.time:
    """Give the time of day back, in its zone."""
    naive = dt.time.fromisoformat(tag["value"])
    return naive.replace(tzinfo=_zone(tag, decoder, where), fold=tag.get("fold", 0))


def _zone_fields(value: dt.datetime | dt.time, encoder: Encoder, where: Where) -> Tag:
    fields: Tag = {}
    if value.fold:
        fields["fold"] = value.fold
    zone = value.tzinfo
    if zone is None:
        return fields
    if type(zone) is dt.timezone or is_zoneinfo(zone):
        return {**fields, "zone": encoder.value(zone, where)}
    offset = value.utcoffset()
    encoder.note(where, f"time zone {zone} ({type(zone).__name__}) kept as its offset {offset} only")
    return fields if offset is None else {**fields, "zone": encoder.value(dt.timezone(offset), where)}


def _zone(tag: Tag, decoder: Decoder, where: Where) -> dt.tzinfo | None:
    zone = decoder.value(tag.get("zone"), where)
    if zone is not None and not isinstance(zone, dt.tzinfo):
        raise ValueError(f"not a time zone: {zone!r}")
    return zone


def is_zoneinfo(value: object) -> bool:
    """Return whether it is a `zoneinfo.ZoneInfo` with a key, without importing that module."""
    module = sys.modules.get("zoneinfo")
    return module is not None and type(value) is module.ZoneInfo and getattr(value, "key", None) is not None


def write_zoneinfo(value: Any, encoder: Encoder, where: Where) -> Tag:
    """Keep the key (`Europe/Berlin`)."""
    return {"$type": "zoneinfo", "value": encoder.value(value.key, where)}


def read_zoneinfo(tag: Tag, decoder: Decoder, where: Where) -> dt.tzinfo:
    """Give the zone back from this machine's zone data."""
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(tag["value"])
    except zoneinfo.ZoneInfoNotFoundError as error:
        raise decoder.error(where, f"this machine has no time zone {tag['value']!r}") from error


WRITERS: dict[type, Callable[[Any, Encoder, Where], Any]] = {dt.datetime: write_datetime, dt.time: write_time}
"""By exact class."""

READERS: dict[str, Callable[[Tag, Decoder, Where], Any]] = {
    "datetime": read_datetime,
    "time": read_time,
    "zoneinfo": read_zoneinfo,
}
