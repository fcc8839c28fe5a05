"""Rewrites a shared library so that it holds only what the loader maps.

The libraries of torch and vLLM carry symbol tables and debugging information, and torch's one for
CUDA carries 310 MB of code for GPUs. None of it is read on a machine without a GPU: leaving it out
makes the engine a third smaller, and with it every image and every import on a node.

Standard library only; 64-bit little-endian ELF, as x86_64 has it.
"""

import struct
from dataclasses import dataclass, replace
from pathlib import Path

GPU_CODE = ".nv_fatbin"

_PAGE = 4096
_LOAD, _NOTE = 1, 4
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True)
class _Segment:
    """A program header, its fields in the file's order."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    align: int

    def holds(self, address: int) -> bool:
        return self.kind == _LOAD and 0 <= address - self.address < self.memory_size


def trim(path: Path) -> int:
    """Rewrite a library in place if that saves anything, and return the bytes saved.

    Sections that only tools read are left out, GPU code too. The addresses do not change.
    """
    data = path.read_bytes()
    trimmed = trimmed_bytes(data)
    if len(trimmed) >= len(data):
        return 0
    mode = path.stat().st_mode
    path.unlink()  # it may be a hard link into the installer's own store
    path.write_bytes(trimmed)
    path.chmod(mode)
    return len(data) - len(trimmed)


def trimmed_bytes(data: bytes) -> bytes:
    """Return a library with only its mapped segments, or as it is if it cannot be cut down."""
    if data[:6] != b"\x7fELF\x02\x01":
        return data
    segments = _segments(data)
    cut = _cut(segments, *_section(data, GPU_CODE))
    if len(cut) > len(segments):  # a table with one row more would overlap what follows it
        return data
    moved, body = _lay_out(data, cut)
    return _with_headers(data, moved, body)


def _segments(data: bytes) -> list[_Segment]:
    header = _HEADER.unpack_from(data)
    start, size, count = header[5], header[9], header[10]
    return [_Segment(*_SEGMENT.unpack_from(data, start + i * size)) for i in range(count)]


def _section(data: bytes, name: str) -> tuple[int, int]:
    """Return the address and size of a section, (0, 0) if there is none of that name."""
    header = _HEADER.unpack_from(data)
    start, size, count, names_at = header[6], header[11], header[12], header[13]
    if not start or not count:
        return 0, 0
    rows = [_SECTION.unpack_from(data, start + i * size) for i in range(count)]
    names = rows[names_at][4]
    wanted = name.encode() + b"\0"
    for row in rows:
        if data.startswith(wanted, names + row[0]):
            return row[3], row[5]
    return 0, 0


def _cut(segments: list[_Segment], address: int, size: int) -> list[_Segment]:
    """Split the segment around the whole pages of a range; a note gives its row to the new one."""
    first = -(-address // _PAGE) * _PAGE
    end = (address + size) // _PAGE * _PAGE
    if end <= first:
        return segments
    result: list[_Segment] = []
    for segment in segments:
        if segment.holds(first) and segment.holds(end):
            skipped = end - segment.address
            result.append(
                replace(
                    segment,
                    file_size=first - segment.address,
                    memory_size=first - segment.address,
                )
            )
            result.append(
                replace(
                    segment,
                    offset=segment.offset + skipped,
                    address=end,
                    physical=end,
                    file_size=segment.file_size - skipped,
                    memory_size=segment.memory_size - skipped,
                )
            )
        elif segment.kind != _NOTE:
            result.append(segment)
    return result


def _lay_out(data: bytes, segments: list[_Segment]) -> tuple[list[_Segment], bytes]:
    """Put the mapped parts one behind the other, each at an offset that fits its address."""
    body = bytearray()
    loads: list[tuple[_Segment, _Segment]] = []
    for segment in segments:
        if segment.kind == _LOAD:
            gap = (segment.address - len(body)) % max(segment.align, _PAGE)
            body += bytes(gap)
            loads.append((segment, replace(segment, offset=len(body))))
            body += data[segment.offset : segment.offset + segment.file_size]
    moved = dict(loads)
    return [moved.get(one) or _follow(one, loads) for one in segments], bytes(body)


def _follow(segment: _Segment, loads: list[tuple[_Segment, _Segment]]) -> _Segment:
    """Move a segment that names a part of a mapped one, such as the dynamic table, with it."""
    for _, load in loads:
        if segment.file_size and load.holds(segment.address):
            return replace(segment, offset=load.offset + segment.address - load.address)
    return segment


def _with_headers(data: bytes, segments: list[_Segment], body: bytes) -> bytes:
    header = list(_HEADER.unpack_from(data))
    table = header[5]
    header[6] = header[12] = header[13] = 0  # no sections: the loader does not read them
    header[10] = len(segments)
    rows = b"".join(
        _SEGMENT.pack(*(getattr(one, name) for name in _Segment.__dataclass_fields__))
        for one in segments
    )
    result = bytearray(body)
    result[: _HEADER.size] = _HEADER.pack(*header)
    result[table : table + len(rows)] = rows
    return bytes(result)
