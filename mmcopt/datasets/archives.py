"""Files of arrays: read without trust, and written whole or not at all.

An .npz file comes from anywhere. Nothing in it is unpickled, no member is written to disk, and a
member may not claim more than it holds, nor all together more than there is memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import shutil
import tokenize
import zipfile
import zlib
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from mmcopt.checks import require_memory
from mmcopt.types import Path

MOST_MEMBERS = 1_000_000
PIECE = 2**20  # bytes that are unpacked at once
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # which expand a thousandfold at the most
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# What zip, zlib, NumPy, JSON and classes raise on a file that is damaged or something else.
BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError,
          MemoryError, RecursionError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
          zlib.error, tokenize.TokenError)


def read_arrays(path: Path, wanted: Container[str] | None = None) -> dict[str, Any]:
    """The arrays of an .npz file by name, or the wanted ones; what is wrong is one of `BROKEN`."""
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise ValueError(f"it claims to hold {len(members)} arrays")
        names = [_array_name(member) for member in members]
        if len(set(names)) < len(names):
            raise ValueError("two of its arrays have one name")
        chosen = [(name, member) for name, member in zip(names, members, strict=True)
                  if wanted is None or name in wanted]
        require_memory(sum(member.file_size for _, member in chosen), f"reading {path}",
                       "a file that claims so much is damaged, or too large for this machine.")
        return {name: _array(archive, member) for name, member in chosen}


def array_names(path: Path) -> list[str]:
    """The names of the arrays of an .npz file; those of other members as they are."""
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()[:100]]


def _array_name(member: zipfile.ZipInfo) -> str:
    """The name of an array, which is that of no folder."""
    name, ending = member.filename[:-4], member.filename[-4:]
    if ending != ".npy" or not name or set(name) & set("/\\:\0") or name.startswith("."):
        raise ValueError(f"its member {member.filename[:60]!r} is no array")
    if member.compress_type not in METHODS or member.flag_bits & 1:
        raise ValueError(f"its member {member.filename[:60]!r} is packed in another way")
    return name


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """One array, of exactly the bytes that its member has."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in HEADERS:
            raise ValueError(f"{member.filename} is of an unknown format {version}")
        try:
            shape, fortran, dtype = HEADERS[version](stream)
        except ValueError as e:  # which NumPy words at length
            raise ValueError(f"{member.filename} has no header of an array") from e
        if dtype.hasobject:
            raise ValueError(f"{member.filename} holds Python objects, which are not read")
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size != member.file_size - stream.tell():
            raise ValueError(f"{member.filename} claims a shape that it does not have")
        flat, done = np.empty(size, dtype=np.uint8), 0
        while part := stream.read(PIECE):  # to its end, where the checksum is compared
            flat[done:done + len(part)] = np.frombuffer(part, dtype=np.uint8)
            done += len(part)
        if done != size:
            raise EOFError(f"{member.filename} ends early")
    whole = flat.view(dtype) if size else np.empty(0, dtype)
    return whole.reshape(shape[::-1]).T if fortran else whole.reshape(shape)


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compressed: bool = True) -> None:
    """Write an .npz file beside its place and move it there: old or new, never half of either."""
    place = os.path.realpath(path)
    write = np.savez_compressed if compressed else np.savez
    if os.path.exists(place) and not os.path.isfile(place):  # a pipe or a device
        with open(place, "wb") as file:
            write(file, **arrays)
        return
    beside = f"{place}.part"
    try:
        with open(beside, "wb") as file:
            write(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(place):
            shutil.copymode(place, beside)
        os.replace(beside, place)
    finally:
        with contextlib.suppress(OSError):  # where all went well it has its name now
            os.unlink(beside)
    _settle(os.path.dirname(place))


def _settle(folder: str) -> None:
    """Let the new name reach the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def digest(arrays: Mapping[str, Any]) -> str:
    """A hash of names, types, shapes and contents."""
    out = hashlib.sha256()
    for name in sorted(arrays):
        a = np.asarray(arrays[name])
        out.update(f"{name}|{a.dtype.str if a.dtype.names is None else a.dtype.descr}|{a.shape}|"
                   .encode())
        out.update(np.ascontiguousarray(a).tobytes())
    return out.hexdigest()
