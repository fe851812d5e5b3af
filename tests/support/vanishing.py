"""A host that vanishes: its end of a connection takes no segment any more, and answers none."""

import ctypes
import socket
import struct

_SO_ATTACH_FILTER = 26
_RETURN = 0x06  # BPF_RET | BPF_K


def vanish(sock: socket.socket) -> None:
    """Let the kernel drop all that comes for this socket, as the network does where a host has no power."""
    program = struct.pack("HBBI", _RETURN, 0, 0, 0)  # keep 0 bytes of every segment
    buffer = ctypes.create_string_buffer(program)
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(buffer)))
