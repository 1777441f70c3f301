"""Variables of libraries that each thread has of its own, as C's library finds them."""

from __future__ import annotations

import ctypes
import functools
import os


class NotHere(Exception):
    """Something of torch or of C's library that is not as kernels would need it; says what."""


class _Library(ctypes.Structure):
    """`Dl_info` of C's library."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


_TLS_MODULE, _TLS_DATA = 9, 10
"""`RTLD_DI_TLS_MODID` and `RTLD_DI_TLS_DATA` of C's library."""
THREAD_LOCAL = "__tls_get_addr"
"""C's function that gives the address of a thread's own variable, for the number of a library and an offset."""


@functools.cache
def thread_local() -> int:
    """The address of `THREAD_LOCAL`."""
    return ctypes.cast(getattr(ctypes.CDLL(None), THREAD_LOCAL), ctypes.c_void_p).value or 0


_kept: list[object] = []
"""Machine code knows their addresses."""


def thread_index(name: str, near: int) -> int:
    """The address of two words for `THREAD_LOCAL`: the library's number, and the offset of a variable in it.

    Args:
        name: of the variable.
        near: the address of a function of the library.

    Raises:
        NotHere: where there is no such variable.
    """
    system = ctypes.CDLL(None)
    system.dladdr.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    system.dlinfo.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    library = _Library()
    if not system.dladdr(near, ctypes.addressof(library)):
        raise NotHere(f"no library has {name}")
    opened = ctypes.CDLL(os.fsdecode(library.file), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    number, start = ctypes.c_size_t(), ctypes.c_void_p()
    for question, answer in ((_TLS_MODULE, number), (_TLS_DATA, start)):
        if system.dlinfo(opened._handle, question, ctypes.addressof(answer)):
            raise NotHere("dlinfo does not answer")
    try:
        place = ctypes.addressof(ctypes.c_char.in_dll(opened, name))
    except ValueError:
        raise NotHere(f"torch exports no {name}") from None
    index = (ctypes.c_size_t * 2)(number.value, place - (start.value or 0))
    _kept.append(index)
    return ctypes.addressof(index)
